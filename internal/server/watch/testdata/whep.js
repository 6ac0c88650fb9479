// Watches a desktop in Debian's Chromium by a WHEP client that is not ours, as it is
// on npm. Arguments: the server, the desktop's id, a ticket, and points as JSON. It
// prints the colours of the points, clicks over a data channel, and ends when the
// first point has become white.
const { chromium } = require('playwright-core');

const [server, desktop, ticket, points] = process.argv.slice(2);

async function main() {
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  try {
    const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
    page.setDefaultTimeout(120000);
    page.on('console', (m) => console.error('page:', m.text()));
    page.on('pageerror', (e) => console.error('page:', e.message));
    await page.goto(server + '/player/');
    await page.evaluate(
      async ([url, secret]) => {
        const { WHEPClient } = await import('/player/whep.js');
        const pc = new RTCPeerConnection();
        const video = document.querySelector('video');
        pc.ontrack = (e) => { video.srcObject = e.streams[0]; };
        pc.addTransceiver('video', { direction: 'recvonly' });
        window.input = pc.createDataChannel('input');
        window.client = new WHEPClient();
        await window.client.view(pc, url, secret);
      },
      [server + '/v1/desktops/' + desktop + '/whep', ticket],
    );
    await page.waitForFunction(() => document.querySelector('video').videoWidth > 0);
    const colours = (list) =>
      page.evaluate((all) => {
        const video = document.querySelector('video');
        const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
        const c = canvas.getContext('2d', { willReadFrequently: true });
        c.drawImage(video, 0, 0);
        return all.map(([x, y]) => [...c.getImageData(x, y, 1, 1).data].slice(0, 3)).concat([[canvas.width, canvas.height]]);
      }, list);
    const list = JSON.parse(points);
    const drawn = () => colours(list).then((all) => all.slice(0, -1).some((c) => c.some((v) => v > 40)));
    while (!(await drawn())) await page.waitForTimeout(50);
    await page.waitForTimeout(1000); // until it is sharp
    console.log(JSON.stringify(await colours(list)));
    await page.waitForFunction(() => window.input.readyState === 'open');
    await page.evaluate(() => {
      for (const [seq, held] of [[1, 1], [2, 0]]) {
        const m = new DataView(new ArrayBuffer(11));
        m.setUint8(0, 2);
        m.setUint32(1, seq);
        m.setUint16(5, 300);
        m.setUint16(7, 200);
        m.setUint16(9, held);
        window.input.send(m.buffer);
      }
    });
    for (;;) {
      const [first] = await colours(list);
      if (first.every((v) => v > 240)) break;
      await page.waitForTimeout(50);
    }
    console.log('white');
    await page.evaluate(() => window.client.stop());
  } finally {
    await browser.close();
  }
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
