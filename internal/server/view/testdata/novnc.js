// Opens Debian's noVNC, as it is, and acts in it. It tells the colours of the points
// that it is given, clicks and types, and ends when the first point has become white.
const { run } = require(process.env.DRIVER);

run(async ({ browser, arg: { server, desktop, ticket, points: list }, say }) => {
  const page = await browser.newPage({ viewport: { width: 500, height: 300 } });
  page.setDefaultTimeout(120000);
  page.on('console', (m) => console.error('page:', m.text()));
  page.on('pageerror', (e) => console.error('page:', e.message));
  await page.goto(server + '/healthz');
  const status = await page.evaluate(
    async (t) => (await fetch('/v1/view', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ ticket: t }) })).status,
    ticket,
  );
  if (status !== 200) throw new Error('the ticket is answered with ' + status);
  await page.goto(server + '/novnc/vnc_lite.html?path=v1/desktops/' + desktop + '/rfb');
  await page.waitForFunction(() => document.getElementById('status').textContent.startsWith('Connected'));
  const colours = (list) =>
    page.evaluate((all) => {
      const canvas = document.querySelector('canvas');
      const c = canvas.getContext('2d');
      return all.map(([x, y]) => [...c.getImageData(x, y, 1, 1).data].slice(0, 3)).concat([[canvas.width, canvas.height]]);
    }, list);
  // None of the colours is black, which the canvas begins with.
  const drawn = () => colours(list).then((all) => all.slice(0, -1).every((c) => c.some((v) => v > 0)));
  while (!(await drawn())) await page.waitForTimeout(50);
  say(await colours(list));
  const box = await page.locator('canvas').boundingBox();
  await page.mouse.click(Math.ceil(box.x) + 200, Math.ceil(box.y) + 150); // the page may put it between pixels
  await page.keyboard.press('a');
  for (;;) {
    const [first] = await colours(list);
    if (first.every((v) => v === 255)) break;
    await page.waitForTimeout(50);
  }
  say('white');
});
