import '../common/style.css';
import './dashboard.css';
import { render } from 'preact';
import { Problem, said } from '../common/api';
import { Notice } from '../common/notice';
import { begin } from '../common/session';
import { App } from './app';
import { Store } from './store';
import { Thumbs } from './thumbs';

function refuse(root: HTMLElement, e: unknown): void {
  const asks = e instanceof Problem && e.signedOut;
  render(
    <Notice title={asks ? 'Open the dashboard with a link' : 'The dashboard cannot be shown'}>
      <p>{asks ? 'Links are made for a while, and this browser has none that is still good. On the host, this prints one:' : said(e)}</p>
      {asks && <pre>vmhost open --role control</pre>}
    </Notice>,
    root,
  );
}

async function main(root: HTMLElement): Promise<void> {
  try {
    const view = await begin();
    const store = new Store();
    store.on('link', () => store.over && refuse(root, store.over));
    store.start();
    render(<App store={store} thumbs={new Thumbs()} view={view} />, root);
  } catch (e) {
    refuse(root, e);
  }
}

const app = document.getElementById('app');
if (app) void main(app);
