// Chromium with pages of the viewer and the dashboard, each under a name, played by a
// test: it sends a step, {do, page, …}, and is answered {value} or {error}.
const { run, watched, until } = require(process.env.DRIVER);

run(async ({ browser, arg: { server, pictures }, say, hear }) => {
  const pages = new Map();
  const bad = [];

  /** point is where a pixel of the desktop lies on a page. */
  const point = async (page, x, y) => {
    const box = await page.locator('.screen').boundingBox();
    return [box.x + ((x + 0.5) * box.width) / 1280, box.y + ((y + 0.5) * box.height) / 800];
  };
  const says = async (page, pattern) => {
    const re = new RegExp(pattern);
    await until(`the page says ${re}`, async () => re.test(await page.evaluate(() => document.body.innerText)));
  };
  const menu = async (page, name) => {
    if (!(await page.locator('#clip').count())) await page.getByRole('button', { name, exact: true }).click();
  };

  const steps = {
    async open(_, { page: name, url, phone }) {
      const context = await browser.newContext(
        phone ? { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } : { viewport: { width: 1280, height: 860 } },
      );
      const faults = watched(context, server);
      bad.push(faults);
      const page = await context.newPage();
      page.setDefaultTimeout(60000);
      pages.set(name, page);
      await page.goto(url);
    },
    live: (page) => page.waitForSelector('.dot.live', { state: 'attached' }).then(() => undefined),
    says: (page, { text }) => says(page, text),
    /** grid is the colours of every so many pixels of the picture, row by row, as numbers. */
    grid: (page, { every }) => page.evaluate(shown, every).then((s) => s.grid),
    shows: (page, { x, y, colour }) =>
      until(`${colour} at ${x},${y}`, async () => {
        const { width, height, grid } = await page.evaluate(shown, [x, y]);
        return width && height && colour.every((v, i) => Math.abs(v - grid[i]) <= 24);
      }).then(() => undefined),
    async take(page) {
      await page.getByRole('button', { name: 'Take control' }).first().click();
      await page.waitForSelector('.owner.mine');
    },
    mine: (page) => page.waitForSelector('.owner.mine').then(() => undefined),
    async release(page) {
      await page.getByRole('button', { name: 'Release' }).click();
      await page.waitForSelector('.owner.free');
    },
    async click(page, { x, y }) {
      await page.mouse.click(...(await point(page, x, y)));
    },
    /** mark draws the mouse to the right, over some text. */
    async mark(page, { x, y }) {
      await page.mouse.move(...(await point(page, x, y)));
      await page.mouse.down();
      await page.mouse.move(...(await point(page, x + 200, y)), { steps: 5 });
      await page.mouse.up();
    },
    async type(page, { text }) {
      await page.locator('.keys').focus();
      await page.keyboard.type(text);
    },
    async press(page, { text }) {
      await page.locator('.keys').focus();
      await page.keyboard.press(text);
    },
    async paste(page, { text }) {
      await menu(page, 'Clipboard');
      await page.getByLabel('Into the desktop').fill(text);
      await page.getByRole('button', { name: 'Send' }).click();
      await page.locator('#clip').waitFor({ state: 'detached' }); // the menu gives the focus back
    },
    async copied(page, { text }) {
      await menu(page, 'Clipboard');
      await until('what is copied', async () => (await page.getByLabel('Out of the desktop').inputValue()).startsWith(text));
      await page.keyboard.press('Escape');
    },
    async drop(page, { file, text }) {
      await page.evaluate(
        ([name, content]) => {
          const data = new DataTransfer();
          data.items.add(new File([content], name));
          document.querySelector('.stage').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data }));
        },
        [file, text],
      );
      await says(page, 'is in the desktop');
    },
    /** tap touches the picture: a finger that comes and goes. */
    tap: (page) => page.locator('.screen').tap(),
    /** swipe moves a finger over the picture by so much of the page. */
    async swipe(page, { x, y }) {
      const box = await page.locator('.screen').boundingBox();
      const at = [box.x + box.width / 2, box.y + box.height / 2];
      const cdp = await page.context().newCDPSession(page);
      const touch = (type, list) => cdp.send('Input.dispatchTouchEvent', { type, touchPoints: list.map(([px, py]) => ({ x: px, y: py, id: 1 })) });
      await touch('touchStart', [at]);
      for (let i = 1; i <= 10; i++) await touch('touchMove', [[at[0] + (x * i) / 10, at[1] + (y * i) / 10]]);
      await touch('touchEnd', []);
    },
    /** thumbs waits until cards of these names have pictures, of which one has this colour at a point. */
    async thumbs(page, { names, name, x, y, colour }) {
      const card = (n) => page.locator('.card').filter({ has: page.getByRole('heading', { name: n, exact: true }) });
      for (const n of names) await card(n).locator('.shot[data-shown="true"] img').waitFor();
      await until(`a picture of ${name} with ${colour}`, async () => {
        const got = await card(name).locator('img').evaluate(
          (img, [px, py]) => {
            const c = document.createElement('canvas');
            c.width = c.height = 1;
            const by = img.naturalWidth / 1280;
            c.getContext('2d').drawImage(img, px * by, py * by, 1, 1, 0, 0, 1, 1);
            return [...c.getContext('2d').getImageData(0, 0, 1, 1).data];
          },
          [x, y],
        );
        return colour.every((v, i) => Math.abs(v - got[i]) <= 24);
      });
    },
    picture: (page, { text }) => page.screenshot({ path: `${pictures}/${text}.png` }).then(() => undefined),
    close: (page) => page.context().close(),
    // What the network does while the server is away is the browser's own news, and a refusal that is meant is, too.
    faults: () => bad.flat().filter((f) => !/Failed to load resource|WebSocket connection to|ERR_/.test(f)),
  };

  for (;;) {
    const step = await hear();
    if (step.do === 'end') return;
    try {
      say({ value: await steps[step.do](pages.get(step.page), step) });
    } catch (e) {
      let n = 0;
      for (const p of pages.values()) await p.screenshot({ path: `${pictures}/fault-${n++}.png` }).catch(() => undefined);
      say({ error: String(e.message).split('\n').slice(0, 8).join(' | ') });
    }
  }
});

/** shown is the picture on the page, video or canvas: its size, and colours of every so many pixels, or of one point. */
function shown(want) {
  const el = [...document.querySelectorAll('.screen video, .screen .picture')].find((e) => !e.hidden);
  const width = el?.videoWidth ?? el?.width ?? 0;
  const height = el?.videoHeight ?? el?.height ?? 0;
  if (!want || !width) return { width, height, grid: [] };
  const c = document.createElement('canvas');
  const grid = [];
  const dots = Array.isArray(want);
  c.width = dots ? 1 : width;
  c.height = dots ? 1 : height;
  const context = c.getContext('2d', { willReadFrequently: true });
  // A slow way gets a picture of half the size.
  if (dots) context.drawImage(el, (want[0] * width) / 1280, (want[1] * width) / 1280, 1, 1, 0, 0, 1, 1);
  else context.drawImage(el, 0, 0);
  const { data } = context.getImageData(0, 0, c.width, c.height);
  const step = dots ? 1 : want;
  for (let y = 0; y < c.height; y += step) for (let x = 0; x < c.width; x += step) grid.push(...data.slice(4 * (y * c.width + x), 4 * (y * c.width + x) + 3));
  return { width, height, grid };
}
