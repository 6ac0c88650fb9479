// Opens the dashboard, and does by keyboard what a person does. See TestDashboard.
const { run, watched, until } = require(process.env.DRIVER);
const assert = require('node:assert');

run(async ({ browser, arg, say, hear }) => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'light', locale: 'en-GB' });
  const bad = watched(context, arg.server);
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  const key = (k) => page.keyboard.press(k);
  const cards = () => page.locator('.card').count();
  const card = (name) => page.locator('.card').filter({ has: page.getByRole('heading', { name, exact: true }) });
  const state = (name, s) => card(name).and(page.locator(`[data-state="${s}"]`)).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.closest('.card')?.querySelector('h3')?.textContent);
  const picture = (name) => page.screenshot({ path: `${arg.pictures}/${name}.png` });

  await page.goto(arg.admin);
  await until('six cards', async () => (await cards()) === 6);
  assert.equal(new URL(page.url()).hash, '', 'the ticket stays in the address');
  assert.equal(await page.evaluate(() => document.cookie), '', 'a script reads the cookie');
  await until('pictures', async () => (await page.locator('.shot[data-shown="true"]').count()) >= 5);
  assert.match(await card('crawler').locator('.holder').textContent(), /robot-7/);
  await state('resting', 'paused');
  await state('asleep', 'suspended');
  const sizes = await page.locator('.shot[data-shown="true"] img').evaluateAll((all) => all.map((i) => i.naturalWidth));
  assert.ok(sizes.every((w) => w === 480), `pictures are ${sizes} pixels wide`);

  // By keyboard alone.
  await key('/');
  await page.keyboard.type('team=red');
  await until('three cards', async () => (await cards()) === 3);
  await key('Escape');
  await until('all cards', async () => (await cards()) === 6);
  await until('a card has the focus', focused);
  await key('Home');
  const order = await page.locator('.card h3').allTextContents();
  await until('the focus', async () => (await focused()) === order[0]);
  await key('ArrowRight');
  await until('the focus', async () => (await focused()) === order[1]);
  await key('End');
  await until('the focus', async () => (await focused()) === 'checkout');
  await key('.');
  await page.locator('.menu').waitFor();
  await picture('menu');
  await key('Escape');
  await page.locator('.menu').waitFor({ state: 'detached' });
  await until('the focus', async () => (await focused()) === 'checkout');
  const focus = (name) => until(`focus on ${name}`, async () => {
    if ((await focused()) === name) return true;
    await key((await focused()) === undefined ? 'Tab' : 'ArrowLeft');
    return false;
  });
  await key('Shift+Tab');
  await key('Tab');
  await key('f');
  await page.getByRole('dialog').waitFor();
  await key('Tab');
  await page.keyboard.type('twin');
  await picture('fork');
  await key('Enter');
  await state('twin', 'ready');
  await page.locator('.side .feed li[data-type="desktop.forked"]').first().waitFor();

  await page.locator('.shot[tabindex="0"]').focus();
  await key('End');
  await key('k');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.type('kept');
  await key('Enter');
  await page.locator('.toast').filter({ hasText: 'kept as kept' }).waitFor();
  await page.locator('.modal').waitFor({ state: 'detached' });
  await key('p');
  await state('checkout', 'paused');
  await key('p');
  await state('checkout', 'ready');
  await focus('asleep');
  await key('p');
  await state('asleep', 'ready');
  await focus('branch-2');
  await key('Delete');
  await page.getByRole('dialog').waitFor();
  await until('Cancel is what Enter means', () => page.evaluate(() => document.activeElement.textContent === 'Cancel'));
  await key('Tab');
  await picture('delete');
  await key('Enter');
  await card('branch-2').waitFor({ state: 'detached' });
  await page.locator('.modal').waitFor({ state: 'detached' });
  await key('n');
  await page.getByRole('dialog').waitFor();
  await page.locator('.modal option', { hasText: 'kept' }).waitFor({ state: 'attached' });
  await picture('create');
  await page.keyboard.press('Tab');
  await page.keyboard.type('made');
  await key('Enter');
  await state('made', 'ready');
  const src = () => card('checkout').locator('img').getAttribute('src');
  const before = await src();
  say('acted');
  await hear();
  await until('the new picture', async () => (await src()) !== before);
  await card('made').waitFor({ state: 'detached' });
  await page.locator('.toast').first().waitFor({ state: 'detached' });
  await picture('dashboard-light');

  // The other views.
  await key('2');
  await page.locator('.node[data-kind="desktop"] a').first().waitFor();
  await until('lines of the lineage', async () => (await page.locator('.edge').count()) >= 5);
  await picture('lineage');
  await page.locator('.node a', { hasText: 'twin' }).first().focus();
  await key('Enter');
  await until('the card of the node', async () => (await focused()) === 'twin');
  await key('3');
  await page.locator('.chart .column').first().waitFor({ state: 'attached' });
  await picture('use');
  await key('4');
  await page.locator('.feed li').first().waitFor();
  await key('1');
  await page.locator('.shot[tabindex="0"]').focus();
  await key('Shift+?');
  await page.getByRole('dialog').waitFor();
  await picture('keys');
  await key('Escape');
  await page.locator('.modal').waitFor({ state: 'detached' });
  await page.emulateMedia({ colorScheme: 'dark' });
  await until('pictures', async () => (await page.locator('.shot[data-shown="true"]').count()) >= 5);
  await picture('dashboard-dark');
  await key('t'); // light, whatever the system says
  await until('light', () => page.evaluate(() => getComputedStyle(document.body).colorScheme === 'light'));
  await key('t');
  await key('t');

  // On a phone and a tablet, with a link that may only look.
  for (const [name, width, height] of [['phone', 390, 844], ['tablet', 820, 1180]]) {
    const other = await browser.newContext({ viewport: { width, height }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: 'light', locale: 'en-GB' });
    bad.push(...watched(other, arg.server));
    const small = await other.newPage();
    await small.goto(arg.view);
    await until('cards', async () => (await small.locator('.card').count()) === 6);
    await until('pictures', async () => (await small.locator('.shot[data-shown="true"]').count()) >= 2);
    await small.locator('.link-state[data-tone="good"]').waitFor();
    const wide = await small.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `on a ${name} the page is ${wide} pixels too wide`);
    assert.ok(await small.locator('.bar .primary').isDisabled(), 'who may only look creates');
    assert.equal(await small.locator('.card-acts button[data-verb]:enabled').count(), 0, 'who may only look acts');
    await small.screenshot({ path: `${arg.pictures}/${name}.png` });
    await other.close();
  }
  say('seen');
  // A picture, or a description, may be asked for while its desktop is being deleted.
  const late = /status of 40[49].*\/v1\/desktops\/[a-z0-9]+(\/screenshot|$)/;
  assert.deepEqual(bad.filter((b) => !late.test(b)), []);

  // Revoked: the page says so by itself.
  await hear();
  await page.getByText('Open the dashboard with a link').waitFor();
  await picture('over');

  // What gets into the page runs nothing, and calls nobody.
  const ran = await page.evaluate(async () => {
    const violations = new Set();
    document.addEventListener('securitypolicyviolation', (e) => violations.add(e.effectiveDirective));
    const s = document.createElement('script');
    s.textContent = 'window.ran = true';
    document.body.append(s);
    const away = await fetch('https://example.invalid/').then(() => 'answered', (e) => e.name);
    document.body.insertAdjacentHTML('beforeend', '<p id="hot" onclick="window.ran = true">x</p>');
    document.getElementById('hot').click();
    for (let i = 0; violations.size < 3 && i < 1000; i++) await new Promise((done) => setTimeout(done, 10));
    return { ran: window.ran === true, away, violations: [...violations].sort() };
  });
  assert.deepEqual(ran, { ran: false, away: 'TypeError', violations: ['connect-src', 'script-src-attr', 'script-src-elem'] });
});
