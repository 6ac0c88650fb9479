import '../common/style.css';
import './viewer.css';
import { render } from 'preact';
import { said, Problem } from '../common/api';
import { Notice } from '../common/notice';
import { begin } from '../common/session';
import { App } from './app';
import type { Carrier } from './way';

/** The id in the page's address: /view/ID. */
const desktop = decodeURIComponent(location.pathname.split('/')[2] ?? '');

/** only is the one way that the address asks for, ?way=websocket: to find out what is wrong with the other. */
function only(): Carrier | '' {
  const way = new URLSearchParams(location.search).get('way');
  return way === 'webrtc' || way === 'websocket' ? way : '';
}

async function main(root: HTMLElement): Promise<void> {
  render(<Notice title="Opening…" />, root);
  for (let pause = 250; ; pause = Math.min(3000, pause * 2)) {
    try {
      const view = await begin(desktop);
      render(<App view={view} desktop={desktop} only={only()} />, root);
      return;
    } catch (e) {
      if (!(e instanceof Problem) || e.status !== 0) {
        refused(root, e);
        return;
      }
      render(<Notice title="Opening…"><p>{said(e)}</p></Notice>, root);
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}

function refused(root: HTMLElement, e: unknown): void {
  const over = e instanceof Problem && e.signedOut;
  render(
    <Notice title={over ? 'This link is not valid any more' : 'The desktop cannot be shown'}>
      <p>{over ? 'Links end with their time. Ask for a new one:' : said(e)}</p>
      {over && <pre>vmhost open {desktop}</pre>}
    </Notice>,
    root,
  );
}

const app = document.getElementById('app');
if (app) void main(app);
