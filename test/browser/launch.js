// What scripts of tests share: require(process.env.DRIVER).
//
//   run(async ({ browser, arg, say, hear }) => …)   arg is the test's; say(v) tells it something, await hear() waits for what it says
//   watched(context, server)                        a list that gets what no page may do: errors, requests to other hosts
//   until(what, fn)                                 waits until fn answers with something true
const { chromium } = require('playwright-core');
const readline = require('node:readline');

const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

async function run(script) {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args });
  process.once('SIGINT', () => void browser.close().finally(() => process.exit(1)));
  const input = readline.createInterface({ input: process.stdin });
  const lines = input[Symbol.asyncIterator]();
  try {
    await script({
      browser,
      arg: JSON.parse(process.argv[2]),
      say: (v) => console.log(JSON.stringify(v)),
      hear: async () => JSON.parse((await lines.next()).value),
    });
  } catch (e) {
    console.error(e);
    process.exitCode = 1;
  } finally {
    input.close();
    process.stdin.destroy();
    await browser.close();
  }
}

function watched(context, server) {
  const bad = [];
  context.on('console', (m) => {
    if (m.type() === 'error' || m.type() === 'warning') bad.push('console: ' + m.text() + ' ' + m.location().url);
  });
  context.on('weberror', (e) => bad.push('error: ' + (e.error().stack || e.error())));
  context.on('request', (r) => {
    const url = new URL(r.url());
    if (url.protocol !== 'blob:' && url.protocol !== 'data:' && url.origin !== server) bad.push('request to ' + r.url());
  });
  return bad;
}

async function until(what, fn, limit = 60000) {
  const end = Date.now() + limit;
  for (;;) {
    const got = await fn();
    if (got) return got;
    if (Date.now() > end) throw new Error('never: ' + what);
    await new Promise((done) => setTimeout(done, 25));
  }
}

module.exports = { run, watched, until };
