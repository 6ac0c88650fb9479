// Records on the viewer's page in Debian's Chromium, and watches the recording there.
// arg: server, desktop, ticket. It says "recording", stops when it is told the times in
// ms to look at, and says the duration, and the colour of the middle at each time.
const { run, watched, until } = require(process.env.DRIVER);

run(async ({ browser, arg, say, hear }) => {
  const context = await browser.newContext({ viewport: { width: 1300, height: 800 } });
  const bad = watched(context, arg.server);
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  await page.goto(arg.server + '/view/' + arg.desktop + '?way=websocket#ticket=' + arg.ticket);
  const button = (name) => page.getByRole('button', { name, exact: true });
  await button('Record').click();
  await page.getByText('Recording', { exact: true }).waitFor();
  say('recording');
  const times = await hear();
  await button('Stop recording').click();
  await button('Record').waitFor();
  await button('Activity, console, files, logs').click();
  await page.getByRole('tab', { name: 'Recordings' }).click();
  await button('Watch').click();
  const video = page.locator('.player video');
  await until('the recording is there', () => video.evaluate((v) => v.readyState >= 2));
  const colours = [];
  for (const ms of times) {
    await page.getByRole('slider', { name: 'Time' }).fill(String(Math.floor(ms / 100) * 100));
    await until('it is sought', () => video.evaluate((v, s) => !v.seeking && v.readyState >= 2 && Math.abs(v.currentTime - s) < 0.11, ms / 1000));
    colours.push(
      await video.evaluate((v) => {
        const c = new OffscreenCanvas(v.videoWidth, v.videoHeight).getContext('2d');
        c.drawImage(v, 0, 0);
        return [...c.getImageData(v.videoWidth / 2, v.videoHeight / 2, 1, 1).data].slice(0, 3);
      }),
    );
  }
  await button('Chapter at 0:00: start').click();
  await until('it is back at its start', () => video.evaluate((v) => v.currentTime === 0));
  await video.evaluate((v) => { v.playbackRate = 8; });
  await button('Play').click();
  await until('it has been played', () => video.evaluate((v) => v.ended));
  const got = await video.evaluate((v) => ({ duration: v.duration, width: v.videoWidth, height: v.videoHeight }));
  await button('Back to now').click();
  await video.waitFor({ state: 'detached' });
  page.once('dialog', (d) => d.accept());
  await button('Delete').click();
  await page.getByText('Nothing is recorded.').waitFor();
  say({ ...got, colours, bad });
});
