// Chromium with pages that are measured: those of the viewer, and of noVNC. Each step is
// {do, page, …}, answered by {value} or {error}. See glass.py for what is looked at.
const { run, until } = require(process.env.DRIVER);

/** hooks count what comes, before the page's own scripts run. */
function hooks() {
  window.meter = { pcs: [], bytes: 0, seen: [], press: 0, flips: [] };
  const m = window.meter;
  const PC = window.RTCPeerConnection;
  window.RTCPeerConnection = class extends PC {
    constructor(...a) {
      super(...a);
      m.pcs.push(this);
    }
  };
  const WS = window.WebSocket;
  // Not a class of ours: noVNC looks for the methods on the prototype itself.
  window.WebSocket = new Proxy(WS, {
    construct(target, args) {
      const ws = new target(...args);
      ws.addEventListener('message', (e) => (m.bytes += e.data.byteLength ?? e.data.size ?? e.data.length));
      return ws;
    },
  });
  for (const type of ['pointerdown', 'mousedown']) {
    window.addEventListener(type, () => (m.press ||= performance.now()), true);
  }
  m.total = async () => {
    let sum = m.bytes;
    for (const pc of m.pcs) {
      if (pc.connectionState === 'closed') continue;
      (await pc.getStats()).forEach((s) => s.type === 'transport' && (sum += s.bytesReceived));
    }
    return sum;
  };
  // What is shown: the number, and the patch. A picture of half the size has half of everything.
  const c = document.createElement('canvas');
  c.width = 24 * 16;
  c.height = 160;
  const context = c.getContext('2d', { willReadFrequently: true });
  m.look = (el) => {
    const width = el.videoWidth ?? el.width;
    if (!width) return;
    const by = width / 1280;
    context.drawImage(el, 64 * by, 64 * by, c.width * by, c.height * by, 0, 0, c.width, c.height);
    const at = performance.now();
    const row = context.getImageData(0, 8, c.width, 1).data;
    let n = 0;
    let inverse = 0;
    for (let i = 0; i < 12; i++) {
      n = (n << 1) | (row[4 * (16 * i + 8)] > 127);
      inverse = (inverse << 1) | (row[4 * (16 * (i + 12) + 8)] > 127);
    }
    if ((n ^ inverse) !== 0xfff) return; // half of two pictures, or none yet
    m.first ??= at;
    if (m.seen.at(-1)?.[0] !== n) m.seen.push([n, performance.timeOrigin + at]);
    const white = context.getImageData(64, 96, 1, 1).data[0] > 127;
    if (white !== m.white) m.flips.push(at);
    m.white = white;
  };
  const find = () => [...document.querySelectorAll('.screen video, .screen .picture, #screen canvas')].find((e) => !e.hidden && (e.videoWidth || e.width));
  let current = null;
  const frame = () => {
    if (current?.requestVideoFrameCallback && !current.hidden) {
      m.look(current);
      current.requestVideoFrameCallback(frame);
      return;
    }
    poll();
  };
  const poll = () => {
    current = find() ?? null;
    if (current?.requestVideoFrameCallback) {
      current.requestVideoFrameCallback(frame);
      return;
    }
    if (current) m.look(current);
    requestAnimationFrame(poll);
  };
  requestAnimationFrame(poll);
}

run(async ({ browser, say, hear }) => {
  const pages = new Map();
  const steps = {
    /** open answers how long it took from the beginning of the page to the first picture, in milliseconds. */
    async open(_, { page: name, url }) {
      const context = await browser.newContext({ viewport: { width: 1400, height: 1000 } });
      await context.addInitScript(hooks);
      const page = await context.newPage();
      page.setDefaultTimeout(60000);
      pages.set(name, page);
      await page.goto(url);
      return until('a picture', () => page.evaluate(() => window.meter.first));
    },
    async take(page) {
      await page.getByRole('button', { name: 'Take control' }).first().click();
      await page.waitForSelector('.owner.mine');
    },
    /** sample answers the numbers that were shown, when (in milliseconds of the host's clock), and the bytes that came. */
    async sample(page, { ms }) {
      const before = await page.evaluate(() => {
        window.meter.seen.length = 0;
        return window.meter.total();
      });
      await page.waitForTimeout(ms);
      return page.evaluate(async (b) => ({ bytes: (await window.meter.total()) - b, seen: window.meter.seen }), before);
    },
    /** clicks answers how long the patch took to change after each press, in milliseconds. */
    async clicks(page, { count }) {
      const box = await page.locator('.screen, #screen canvas').first().boundingBox();
      const w = await page.locator('.screen, #screen canvas').first().evaluate((e) => e.clientWidth || e.width);
      const by = w / 1280;
      await page.mouse.move(box.x + 128 * by, box.y + 160 * by);
      const out = [];
      for (let i = 0; i < count; i++) {
        await page.waitForTimeout(300 + 37 * (i % 5));
        await page.evaluate(() => {
          window.meter.press = 0;
          window.meter.flips.length = 0;
        });
        await page.mouse.down();
        out.push(
          await until('the patch changes', () => page.evaluate(() => window.meter.press && window.meter.flips.length > 0 && window.meter.flips[0] - window.meter.press)),
        );
        await page.mouse.up();
      }
      return out;
    },
    async close(page, { page: name }) {
      pages.delete(name);
      await page.context().close();
    },
  };
  for (;;) {
    const step = await hear();
    if (step.do === 'end') return;
    try {
      say({ value: (await steps[step.do](pages.get(step.page), step)) ?? null });
    } catch (e) {
      say({ error: String(e.message).split('\n').slice(0, 5).join(' | ') });
    }
  }
});
