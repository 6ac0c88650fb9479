import '../common/style.css';
import { render } from 'preact';
import { said, Problem } from '../common/api';
import { Notice } from '../common/notice';
import { begin } from '../common/session';

/** The id in the page's address: /view/ID. */
const desktop = decodeURIComponent(location.pathname.split('/')[2] ?? '');

async function main(root: HTMLElement): Promise<void> {
  render(<Notice title="Opening…" />, root);
  try {
    const view = await begin(desktop);
    render(
      <Notice title="This page does not show the desktop yet">
        <p>The link is good: it may {view.role} until {new Date(view.expires ?? 0).toLocaleTimeString()}. Until the viewer is here, any VNC client shows the desktop.</p>
      </Notice>,
      root,
    );
  } catch (e) {
    const over = e instanceof Problem && e.signedOut;
    render(
      <Notice title={over ? 'This link is not valid any more' : 'The desktop cannot be shown'}>
        <p>{over ? 'Links end with their time. Ask for a new one:' : said(e)}</p>
        {over && <pre>vmhost open {desktop}</pre>}
      </Notice>,
      root,
    );
  }
}

const app = document.getElementById('app');
if (app) void main(app);
