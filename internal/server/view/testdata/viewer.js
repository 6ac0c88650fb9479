// Opens the viewer's page in Debian's Chromium, and does in it what people do.
// Arguments: mode, the server, the server behind a network that can be cut, the
// desktop's id. Each step is a line: its name, and what failed.
const { chromium } = require('playwright-core');

const [mode, server, behind, desktop] = process.argv.slice(2);
const shots = process.env.VIEWER_PICTURES; // a folder for pictures of the page

const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const noUDP = '--webrtc-ip-handling-policy=disable_non_proxied_udp';
const patience = Number(process.env.VIEWER_PATIENCE ?? 30000);

/** host asks the test for something. */
async function host(what, query = {}, body) {
  const resp = await fetch(`${server}/test/${what}?${new URLSearchParams(query)}`, { method: body ? 'POST' : 'GET', body: body && JSON.stringify(body) });
  if (!resp.ok) throw new Error(`${what}: ${await resp.text()}`);
  return resp.json();
}

async function until(what, ok, limit = patience) {
  for (const end = Date.now() + limit; ; ) {
    const got = await ok();
    if (got) return got;
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((done) => setTimeout(done, 40));
  }
}

function check(ok, what) {
  if (!ok) throw new Error(what);
}

/** colour is what the page shows at a point of the desktop: canvas or video, whichever has the picture. */
const colour = (page, x, y) =>
  page.evaluate(
    ([px, py]) => {
      const shown = [...document.querySelectorAll('.screen video, .screen .picture')].find((e) => !e.hidden);
      const w = shown?.videoWidth ?? shown?.width ?? 0;
      if (!w) return null;
      const c = document.createElement('canvas');
      c.width = c.height = 1;
      const by = w / 1280;
      const context = c.getContext('2d');
      context.drawImage(shown, px * by, py * by, 1, 1, 0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    },
    [x, y],
  );

const near = (got, want) => got && want.every((v, i) => Math.abs(v - got[i]) <= 28);
const shows = (page, x, y, want, limit) => until(`${want} at ${x},${y}`, async () => near(await colour(page, x, y), want), limit);

/** original is the test's picture at a point. */
const original = (x, y) => {
  const [i, j] = [x - (x % 80), y - (y % 80)];
  return [(40 + i / 2) & 255, (40 + j) & 255, (i ^ j) & 255];
};

const faults = [];

/** open opens the page under a new ticket; a page of its own browser profile. */
async function open(browser, { role = 'control', base = server, query = '', ttl = 600, ...context } = {}) {
  const t = await host('ticket', { role, ttl });
  const ctx = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...context });
  if (mode === 'noway') await ctx.addInitScript(astray);
  const page = await ctx.newPage();
  page.setDefaultTimeout(patience);
  page.on('pageerror', (e) => faults.push(e.message));
  page.on('console', (m) => {
    // What the network does is the browser's own news, not the page's.
    if (m.type() === 'error' && !/Failed to load resource|WebSocket connection to|ERR_/.test(m.text())) faults.push(m.text());
  });
  await page.goto(`${base}/view/${desktop}${query}#ticket=${t.ticket}`);
  page.ticket = t;
  return page;
}

/** astray sends what the page knows of the server's addresses to where nobody is. */
function astray() {
  const set = RTCPeerConnection.prototype.setRemoteDescription;
  RTCPeerConnection.prototype.setRemoteDescription = function (d) {
    return set.call(this, { type: d.type, sdp: d.sdp.replace(/^(a=candidate:\S+ \d \S+ \d+ )\S+/gm, '$1' + '192.0.2.1') });
  };
}

const live = (page) => page.waitForSelector('.dot.live', { state: 'attached' });
const text = (page) => page.evaluate(() => document.body.innerText);
const says = (page, what) => until(`the page says ${what}`, async () => what.test(await text(page)));

async function figures(page) {
  if (!(await page.locator('.figures').count())) await page.getByRole('button', { name: 'Figures' }).click();
  await page.waitForSelector('.figures dl');
  return page.locator('.figures').innerText();
}

async function take(page) {
  await page.getByRole('button', { name: 'Take control' }).first().click();
  await page.waitForSelector('.owner.mine');
  await page.locator('.keys').focus();
}

/** typed waits until the desktop has got a key, or a text. */
const key = (sym, down, code) => until(`key ${sym} ${down}`, async () => (await host('events')).screen.some((e) => e.Kind === 'key' && e.Keysym === sym && e.Down === down && (!code || e.Keycode === code)));
const written = (want) => until(`text ${want}`, async () => ((await host('events')).guest ?? []).some((e) => e.kind === 'text' && e.text === want));

async function shot(page, name) {
  if (shots) await page.screenshot({ path: `${shots}/${name}.png` });
}

const steps = {
  async 'the picture by WebRTC'(s) {
    s.page = await open(s.browser);
    await live(s.page);
    for (const [x, y] of [[20, 20], [620, 420], [1260, 780], [1000, 100]]) await shows(s.page, x, y, original(x, y));
    check(/UDP/.test(await until('UDP', async () => /UDP/.test(await figures(s.page)) && figures(s.page))), 'no UDP');
    check((await s.page.evaluate(() => location.hash)) === '', 'the ticket stays in the address');
  },
  async 'late, on a still screen'(s) {
    await new Promise((done) => setTimeout(done, 700)); // it is still now
    const begun = Date.now();
    s.second = await open(s.browser, { role: 'view' });
    await live(s.second);
    await shows(s.second, 620, 420, original(620, 420));
    s.late = Date.now() - begun;
    check(s.late < 10000, `it took ${s.late} ms`);
    check(await s.second.getByRole('button', { name: 'Take control' }).count() === 0, 'a viewer is offered control');
  },
  async 'both see what changes'(s) {
    await host('fill', { x: 0, y: 0, w: 200, h: 200, r: 255, g: 255, b: 255 });
    await Promise.all([s.page, s.second].map((p) => shows(p, 100, 100, [255, 255, 255])));
  },
  async 'takes control, and clicks'(s) {
    await take(s.page);
    check((await host('control')).kind === 'person', 'nobody has control');
    await until('the other one is told', async () => /has control/.test(await text(s.second)));
    const box = await s.page.locator('.screen').boundingBox();
    await s.page.mouse.move(box.x + box.width / 4, box.y + box.height / 4);
    await s.page.mouse.down();
    await until('the button is down', async () => (await host('events')).screen.some((e) => e.Kind === 'pointer' && e.Buttons === 1 && Math.abs(e.X - 320) < 3 && Math.abs(e.Y - 200) < 3));
    await s.page.mouse.up();
    await until('and up', async () => (await host('events')).screen.filter((e) => e.Kind === 'pointer').at(-1).Buttons === 0);
    await s.page.mouse.wheel(0, 240);
    await until('two notches', async () => (await host('events')).screen.filter((e) => e.Kind === 'pointer' && e.Buttons === 16).length === 2);
  },
  async 'plain keys, by their place'(s) {
    await s.page.keyboard.press('a');
    await key(0x61, true, 0x1e);
    await key(0x61, false, 0x1e);
    await s.page.keyboard.press('ArrowLeft');
    await key(0xff51, false, 0xcb);
    await s.page.keyboard.press('Control+c');
    await key(0xffe3, false, 0x1d);
    await key(0x63, false, 0x2e);
  },
  async 'German: ß, and AltGr with Q'(s) {
    await strokes(s.page, [{ key: 'ß', code: 'Minus' }, { key: 'AltGraph', code: 'AltRight', only: 'down' }, { key: '@', code: 'KeyQ', modifiers: 0, graph: true }, { key: 'AltGraph', code: 'AltRight', only: 'up' }]);
    await written('ß');
    await written('@');
    await strokes(s.page, [{ key: 'z', code: 'KeyY' }]); // where a US keyboard has y
    await written('z');
    check(!(await host('events')).screen.some((e) => e.Keysym === 0xffea), 'AltGr went to the desktop');
  },
  async 'French: a dead key'(s) {
    await strokes(s.page, [{ key: 'Dead', code: 'BracketLeft' }, { key: 'ê', code: 'KeyE' }]);
    await written('ê');
    await strokes(s.page, [{ key: 'é', code: 'Digit2' }]);
    await written('é');
  },
  async 'Japanese: an input method'(s) {
    const cdp = await s.page.context().newCDPSession(s.page);
    await cdp.send('Input.imeSetComposition', { text: 'にほ', selectionStart: 2, selectionEnd: 2 });
    await s.page.waitForSelector('.keys.composing');
    await cdp.send('Input.imeSetComposition', { text: '日本', selectionStart: 2, selectionEnd: 2 });
    await cdp.send('Input.insertText', { text: '日本' });
    await written('日本');
    check((await host('events')).guest.filter((e) => /に/.test(e.text ?? '')).length === 0, 'what was being composed was typed');
  },
  async 'losing the focus lets go'(s) {
    await s.page.locator('.keys').focus();
    await s.page.keyboard.down('Shift');
    await key(0xffe1, true);
    const before = (await host('events')).screen.length;
    await s.page.evaluate(() => window.dispatchEvent(new Event('blur')));
    await until('shift is up', async () => (await host('events')).screen.slice(before).some((e) => e.Keysym === 0xffe1 && !e.Down));
    await s.page.keyboard.up('Shift');
  },
  async 'clipboards, as the policy has it'(s) {
    await s.page.getByRole('button', { name: 'Clipboard' }).click();
    await s.page.getByLabel('Into the desktop').fill('from the person');
    await s.page.getByRole('button', { name: 'Send' }).click();
    await until('the clipboard', async () => (await host('clip').catch(() => '')) === 'from the person');
    await host('copy', { text: 'from the desktop' }).catch(() => undefined); // an agent may not, while a person has control
  },
  async 'a file is dropped'(s) {
    await s.page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File(['hello'], 'a b.txt'));
      document.querySelector('.stage').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data }));
    });
    await until('the file', async () => (await host('dropped')).some((f) => f.name === 'a b.txt' && f.size === 5));
    await says(s.page, /is in the desktop/);
    await s.page.getByRole('button', { name: 'Activity, console' }).click();
    await s.page.getByRole('tab', { name: 'Files' }).click();
    await s.page.getByRole('button', { name: 'Download a b.txt' }).waitFor();
  },
  async 'a role that lacks a right says so'(s) {
    await s.page.getByRole('tab', { name: 'Console' }).click();
    await says(s.page, /does not let you open a console/);
  },
  async 'what an agent does is shown'(s) {
    await s.page.getByRole('button', { name: 'Release' }).click();
    await s.page.waitForSelector('.owner.free');
    await s.page.getByRole('tab', { name: 'Activity' }).click();
    await Promise.all([ // the mark fades while a slow input is still played
      s.page.waitForSelector('.mark .ring', { state: 'attached' }),
      host('input', {}, { actions: [{ kind: 'click', x: 640, y: 400 }, { kind: 'text', text: 'make test' }] }),
    ]);
    await says(s.page, /clicked at 640, 400, typed “make test”/);
    await shot(s.page, 'activity');
  },
  async 'by keyboard alone'(s) {
    await s.page.locator('.keys').focus();
    await s.page.keyboard.press('Enter');
    await s.page.getByRole('alertdialog').getByRole('button', { name: 'Take control' }).focus();
    await s.page.keyboard.press('Enter');
    await s.page.waitForSelector('.owner.mine');
    for (const k of ['Control', 'Alt', 'Shift']) await s.page.keyboard.down(k);
    for (const k of ['Control', 'Alt', 'Shift']) await s.page.keyboard.up(k);
    await until('the focus is on a button', () => s.page.evaluate(() => document.activeElement?.matches('.bar button')));
    await s.page.close();
    await until('control goes back with the page', async () => !(await host('control')).held);
  },
  async 'over the WebSocket, with video and with tiles'(s) {
    await host('draw');
    s.page = await open(s.browser, { base: behind, query: '?way=websocket' });
    await live(s.page);
    await shows(s.page, 620, 420, original(620, 420));
    check(/VP9|VP8/.test(await figures(s.page)), `no video: ${await figures(s.page)}`);
    const plain = await open(s.browser, { query: '?way=websocket' });
    await plain.evaluate(() => undefined);
    const t = await host('ticket', { role: 'view', ttl: 600 });
    await plain.context().addInitScript(() => delete window.VideoDecoder);
    await plain.goto('about:blank');
    await plain.goto(`${server}/view/${desktop}?way=websocket#ticket=${t.ticket}`);
    await live(plain);
    await shows(plain, 620, 420, original(620, 420));
    check(/JPEG/.test(await figures(plain)), 'no tiles');
    await plain.close();
  },
  async 'the network is cut, and comes back'(s) {
    await take(s.page);
    await host('cut');
    await says(s.page, /Reconnecting/);
    await shot(s.page, 'reconnecting');
    await host('fill', { x: 0, y: 0, w: 200, h: 200, r: 250, g: 0, b: 0 });
    await host('mend');
    await shows(s.page, 100, 100, [250, 0, 0]);
    await s.page.waitForSelector('.owner.mine'); // nobody has taken it meanwhile
  },
  async 'the server is restarted, and the page comes back'(s) {
    await host('restart');
    await s.page.waitForSelector('.dot.reconnecting', { state: 'attached' });
    await live(s.page);
    await host('fill', { x: 0, y: 0, w: 200, h: 200, r: 0, g: 250, b: 0 });
    await shows(s.page, 100, 100, [0, 250, 0]);
    await s.page.waitForSelector('.owner.mine');
  },
  async 'the link ends'(s) {
    await host('revoke', { id: s.page.ticket.id });
    await says(s.page, /not valid any more/);
    await shot(s.page, 'over');
    await s.page.close();
    await s.second.close();
  },
  async 'UDP is blocked: TCP'(s) {
    const b = await launch([noUDP]);
    try {
      const page = await open(b);
      await live(page);
      await shows(page, 620, 420, original(620, 420));
      await until('a way', async () => /TCP|WebSocket/.test(await figures(page))).catch(async () => check(false, `it came by ${await figures(page)}`));
    } finally {
      await b.close();
    }
  },
  async 'nothing was wrong in the console'() {
    check(faults.length === 0, faults.join('; '));
  },
};

// Pictures for the documents, and for people to look at.
const pictures = {
  async 'pictures'(s) {
    await host('photo');
    for (const [name, role, context] of [
      ['light', 'admin', {}], ['dark', 'admin', { colorScheme: 'dark' }],
      ['phone', 'control', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true }],
      ['tablet', 'control', { viewport: { width: 820, height: 1180 }, hasTouch: true, colorScheme: 'dark' }],
    ]) {
      const page = await open(s.browser, { role, viewport: { width: 1440, height: 900 }, ...context });
      await live(page);
      await page.waitForTimeout(1500); // it becomes sharp
      if (name === 'light') await figures(page);
      await page.getByRole('button', { name: 'Activity, console' }).click();
      await page.mouse.move(600, 700); // what a button does is not said any more
      await host('input', {}, { actions: [{ kind: 'click', x: 300, y: 160 }] });
      await host('input', {}, { actions: [{ kind: 'key', keys: 'ctrl+l' }, { kind: 'drag', path: [[700, 300], [800, 340], [900, 500]] }] });
      await host('input', {}, { actions: [{ kind: 'click', x: 520, y: 420 }, { kind: 'text', text: 'go test ./...' }] });
      await page.waitForTimeout(250);
      await shot(page, name);
      if (name === 'dark') {
        await page.getByRole('tab', { name: 'Console' }).click();
        await page.waitForSelector('.xterm-rows');
        await page.waitForTimeout(1500);
        await page.keyboard.type('ls --color=always /\n');
        await page.waitForTimeout(1000);
        await shot(page, 'console');
        await page.getByRole('tab', { name: 'Files' }).click();
        await page.waitForTimeout(500);
        await shot(page, 'files');
        await page.getByRole('tab', { name: 'Logs' }).click();
        await page.waitForTimeout(500);
        await shot(page, 'logs');
        await take(page);
        await page.getByRole('button', { name: 'Keys' }).click();
        await shot(page, 'keys');
        await page.keyboard.press('Escape');
        await page.getByRole('button', { name: 'Share' }).click();
        await page.getByRole('button', { name: 'Make a link' }).click();
        await page.getByRole('button', { name: 'Copy the link' }).waitFor();
        await shot(page, 'share');
      }
      if (name === 'phone') {
        await page.getByRole('button', { name: 'Close' }).click();
        await page.locator('.screen').tap();
        await page.waitForSelector('.offer');
        await shot(page, 'phone-offer');
      }
      await page.close();
    }
  },
  async 'nothing was wrong in the console'() {
    check(faults.length === 0, faults.join('; '));
  },
};

const noway = {
  async 'no way by WebRTC: the WebSocket, by itself'(s) {
    const begun = Date.now();
    const page = await open(s.browser);
    await live(page);
    await shows(page, 620, 420, original(620, 420));
    const said = await figures(page);
    check(/WebSocket/.test(said), `it came by ${said}`);
    check(/found no way: .*\d\.\d\.\d.*:\d+/.test(said.replace(/\s+/g, ' ')), `what failed is not named: ${said.split('\n').at(-2)}`);
    check(Date.now() - begun < 20000, 'it took too long');
    await shot(page, 'noway');
  },
  'nothing was wrong in the console': steps['nothing was wrong in the console'],
};

/** strokes presses keys of a keyboard that Chromium here does not have. */
async function strokes(page, list) {
  await page.locator('.keys').focus();
  await page.evaluate((all) => {
    const to = document.querySelector('.keys');
    for (const { key, code, only, graph } of all) {
      for (const type of ['down', 'up']) {
        if (only && only !== type) continue;
        const e = new KeyboardEvent(`key${type}`, { key, code, bubbles: true, cancelable: true, modifierAltGraph: graph === true });
        to.dispatchEvent(e);
      }
    }
  }, list);
}

const launch = (more = []) => chromium.launch({ executablePath: '/usr/bin/chromium', args: [...flags, ...more] });

async function main() {
  // Where UDP is blocked, too, the server finds no way to the page either.
  const s = { browser: await launch(mode === 'noway' ? [noUDP] : []) };
  try {
    for (const [name, step] of Object.entries({ noway, ways: steps, pictures }[mode])) {
      const begun = Date.now();
      let fault = '';
      try {
        await step(s);
      } catch (e) {
        fault = `\tfailed: ${String(e.message).split('\n').slice(0, 12).join(' | ')}`;
        for (const p of s.browser.contexts().flatMap((c) => c.pages())) await shot(p, `fault-${name.replace(/\W/g, '-')}`);
      }
      console.log(name + fault);
      if (process.env.VIEWER_TIMES) console.error(`${Date.now() - begun} ms: ${name}`);
    }
  } finally {
    await s.browser.close();
  }
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
