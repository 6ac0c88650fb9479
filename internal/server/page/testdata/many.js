// Opens a dashboard of many desktops, and counts what it does. See TestMany.
const { run, watched, until } = require(process.env.DRIVER);
const assert = require('node:assert');

run(async ({ browser, arg, say, hear }) => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'light', locale: 'en-GB' });
  const bad = watched(context, arg.server);
  const page = await context.newPage();
  await page.goto(arg.server + '/');
  await until('all cards', async () => (await page.locator('.card').count()) === arg.count);
  await until('pictures', async () => (await page.locator('.shot[data-shown="true"]').count()) >= 6);
  const pictures = await page.locator('.shot[data-shown="true"]').count();

  await page.evaluate(() => {
    window.touched = new Set();
    const seen = new MutationObserver((list) => {
      for (const m of list) {
        // A thumbnail that comes is no drawing of the card.
        const at = m.target instanceof Element ? m.target : m.target.parentElement;
        if (m.type === 'attributes' && (m.attributeName === 'src' || m.attributeName === 'data-shown' || m.attributeName === 'hidden')) continue;
        if (at?.closest('.shot') && m.type === 'childList') continue;
        const card = at?.closest('.card');
        if (card) window.touched.add(card.querySelector('h3').textContent);
      }
    });
    seen.observe(document.querySelector('.grid'), { subtree: true, childList: true, attributes: true, characterData: true });
  });
  say('ready');
  await hear();
  await until('what has changed', () => page.evaluate((n) => window.touched.size >= n, arg.changed));
  await page.waitForTimeout(500); // others would follow
  const touched = await page.evaluate(() => [...window.touched]);
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);

  // From top to bottom, a part in each frame.
  const frames = await page.evaluate(
    () =>
      new Promise((done) => {
        const gaps = [];
        let last = performance.now();
        const step = (now) => {
          gaps.push(now - last);
          last = now;
          scrollBy(0, 150);
          if (innerHeight + scrollY >= document.documentElement.scrollHeight - 2 || gaps.length > 300) done(gaps);
          else requestAnimationFrame(step);
        };
        requestAnimationFrame(step);
      }),
  );
  frames.sort((a, b) => a - b);
  say({ cards: await page.locator('.card').count(), nodes, pictures, touched, frames, worst: frames.at(-1) });

  // As it looks when much happens.
  await page.evaluate(() => scrollTo(0, 0));
  await hear();
  await page.locator('.feed li').nth(arg.changed + 9).waitFor();
  await page.waitForTimeout(1500); // less says nothing of how busy they are
  say('counted');
  await hear();
  await page.locator('.facts dd', { hasText: /^[1-9]\d* %$/ }).first().waitFor();
  const seen = () => page.evaluate(() => [...document.querySelectorAll('.card[data-state="ready"] .shot')].filter((s) => s.getBoundingClientRect().top < innerHeight).every((s) => s.dataset.shown === 'true'));
  await until('all pictures', seen);
  await page.screenshot({ path: `${arg.pictures}/dashboard.png` });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.screenshot({ path: `${arg.pictures}/dashboard-dark.png` });
  assert.deepEqual(bad, []);
});
