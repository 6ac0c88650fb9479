// Plays a recording in Debian's Chromium under a ticket, as the viewer's page may, and
// seeks in it. arg: server, desktop, ticket, recording, and the times in ms to look at.
// It says the duration, and the colour of the middle at each time.
const { run, watched } = require(process.env.DRIVER);

run(async ({ browser, arg, say }) => {
  const context = await browser.newContext();
  const bad = watched(context, arg.server);
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  await page.goto(arg.server + '/view/' + arg.desktop + '?way=websocket#ticket=' + arg.ticket);
  await page.waitForFunction(() => !location.hash);
  const got = await page.evaluate(async ({ desktop, recording, times }) => {
    const video = document.createElement('video');
    video.muted = true;
    video.src = '/v1/desktops/' + desktop + '/recordings/' + recording;
    const next = (name) =>
      new Promise((done, fail) => {
        video.addEventListener(name, done, { once: true });
        video.addEventListener('error', () => fail(new Error(name + ': ' + video.error.message)), { once: true });
      });
    await next('loadeddata');
    const colours = [];
    const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
    const c = canvas.getContext('2d', { willReadFrequently: true });
    for (const ms of times) {
      const sought = next('seeked');
      video.currentTime = ms / 1000;
      await sought;
      c.drawImage(video, 0, 0);
      colours.push([...c.getImageData(video.videoWidth / 2, video.videoHeight / 2, 1, 1).data].slice(0, 3));
    }
    video.currentTime = 0;
    const ended = next('ended');
    video.playbackRate = 8;
    await video.play();
    await ended;
    return { duration: video.duration, width: video.videoWidth, height: video.videoHeight, colours };
  }, arg);
  say({ ...got, bad });
});
