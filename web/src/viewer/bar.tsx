/** The page's bar: whose desktop, who has control, and what can be done. */
import { useState } from 'preact/hooks';
import { call, request, said } from '../common/api';
import { dark, setTheme } from '../common/theme';
import { Icon } from './icons';
import { chords, keyOf } from './keys';
import { who } from './lease';
import { IconButton, Item, Menu } from './menu';
import type { Model, Tab } from './model';
import { Share } from './share';

/** Owner says who has control, with what the person may do about it. */
export function Owner({ m }: { m: Model }) {
  const c = m.control;
  const live = m.status.phase === 'live';
  const name = c?.held ? who(c.holder, c.kind) : '';
  const asking = c?.mine ? c.asking?.at(0) : undefined;
  return (
    <div class={`owner ${c?.mine ? 'mine' : c?.held ? 'other' : 'free'}`}>
      <span class="who" role="status">
        <Icon name={c?.mine ? 'hand' : c?.kind === 'agent' && c.held ? 'agent' : 'eye'} />
        <span class="truncate">{c?.mine ? 'You have control' : c?.held ? `${name} has control` : 'Watching'}</span>
      </span>
      {asking && (
        <button type="button" class="button primary" onClick={() => void m.attempt(() => m.lease.give(asking.holder))}>
          Give to {who(asking.holder, asking.kind).replace(/^A/, 'a')}
        </button>
      )}
      {m.mayAct && c && <Change m={m} live={live} />}
    </div>
  );
}

function Change({ m, live }: { m: Model; live: boolean }) {
  const c = m.control;
  if (c?.mine) {
    return (
      <button type="button" class="button" disabled={m.busy} onClick={() => void m.attempt(() => m.lease.release())}>
        Release
      </button>
    );
  }
  const take = !c?.held || m.mayAdmin || (c.kind === 'agent' && m.about?.control_policy?.take !== 'nobody');
  return take ? (
    <button type="button" class="button primary" disabled={m.busy || !live} onClick={() => void m.take()}>
      Take control
    </button>
  ) : (
    <button type="button" class="button" disabled={m.busy || !live} onClick={() => void m.attempt(() => m.lease.ask()).then((ok) => ok && !m.mine && m.tell('You have asked for control.'))}>
      Ask for control
    </button>
  );
}

export interface BarProps {
  m: Model;
  tab: Tab | '';
  setTab(t: Tab | ''): void;
  figures: boolean;
  setFigures(on: boolean): void;
  page: HTMLElement | null;
}

export function Bar({ m, tab, setTab, figures, setFigures, page }: BarProps) {
  const live = m.status.phase === 'live';
  return (
    <header class="bar">
      <div class="title">
        <span class={`dot ${m.status.phase}`} aria-hidden="true" />
        <h1 class="truncate">{m.about?.name ?? m.desktop}</h1>
        {m.reel.running && <span class="rec" role="status">Recording</span>}
      </div>
      <Owner m={m} />
      <div class="tools">
        <Keys m={m} />
        <Clip m={m} />
        <IconButton icon="camera" label="Save a picture" disabled={!live} onClick={() => void shoot(m)} />
        {m.mayAct && <IconButton icon="record" label={m.reel.running ? 'Stop recording' : 'Record'} pressed={m.reel.running} disabled={m.busy || (!live && !m.reel.running)} onClick={() => void m.attempt(() => m.reel.toggle())} />}
        <IconButton icon={m.scale === 'fit' ? 'actual' : 'fit'} label={m.scale === 'fit' ? 'Actual size' : 'Fit to the window'} onClick={() => m.setScale(m.scale === 'fit' ? 'actual' : 'fit')} />
        <IconButton icon="full" label="Full screen" onClick={() => void fullscreen(page, m)} />
        <IconButton icon="figures" label="Figures of the connection" pressed={figures} onClick={() => setFigures(!figures)} />
        <Menu icon="share" label="Share a link">{(close) => <Share m={m} close={close} />}</Menu>
        <IconButton icon="sun" label="Light or dark" onClick={() => setTheme(dark() ? 'light' : 'dark')} />
        <IconButton icon="panel" label="Activity, console, files, logs" pressed={tab !== ''} onClick={() => setTab(tab ? '' : 'activity')} />
      </div>
    </header>
  );
}

function Keys({ m }: { m: Model }) {
  const [plain, setPlain] = useState(false);
  return (
    <Menu icon="keyboard" label="Keys" disabled={!m.mine}>
      {(close) => (
        <>
          {chords.map((c) => (
            <Item
              key={c.name}
              onClick={() => {
                close();
                const keys = c.codes.map(keyOf);
                for (const k of keys) m.link.send(m.link.pen.key(k, true));
                for (const k of keys.reverse()) m.link.send(m.link.pen.key(k, false));
                m.stage?.focus();
              }}
            >
              {c.name}
            </Item>
          ))}
          <hr />
          <Item
            checked={plain}
            onClick={() => {
              if (m.stage) m.stage.keyboard.plain = !plain;
              setPlain(!plain);
            }}
          >
            {plain ? '✓ ' : ''}Keys by their place (games, firmware)
          </Item>
          <Item
            onClick={() => {
              close();
              m.stage?.focus();
            }}
          >
            Show the device’s keyboard
          </Item>
          <p class="help">
            <kbd>Ctrl</kbd> <kbd>Alt</kbd> <kbd>Shift</kbd> together lead from the desktop back to these buttons.
          </p>
        </>
      )}
    </Menu>
  );
}

function Clip({ m }: { m: Model }) {
  const policy = m.about?.control_policy?.clipboard ?? 'none';
  const into = policy === 'in' || policy === 'both';
  const out = policy === 'out' || policy === 'both';
  const [text, setText] = useState('');
  const read = () =>
    navigator.clipboard
      ?.readText()
      .then(setText)
      .catch(() => m.tell('The browser does not let this page read the clipboard. Paste into the field instead.'));
  return (
    <Menu icon="clipboard" label="Clipboard" disabled={!m.mine}>
      {(close) => (
        <div class="form">
          {!into && !out && <p class="help">This desktop does not share its clipboard.{m.mayAdmin ? '' : ' Its policy says so; somebody with role admin can change it.'}</p>}
          {m.mayAdmin && (
            <>
              <label for="clippolicy">Shared</label>
              <select id="clippolicy" class="field" value={policy} onChange={(e) => void share(m, e.currentTarget.value)}>
                {ways.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
              </select>
            </>
          )}
          {into && (
            <>
              <label for="clip">Into the desktop</label>
              <textarea id="clip" class="field" rows={3} value={text} onInput={(e) => setText(e.currentTarget.value)} placeholder="Text to paste there" />
              <div class="row">
                {'clipboard' in navigator && (
                  <button type="button" class="button" onClick={() => void read()}>
                    From this device
                  </button>
                )}
                <button
                  type="button"
                  class="button primary"
                  disabled={!text}
                  onClick={() => {
                    m.paste(text);
                    setText('');
                    close();
                  }}
                >
                  Send
                </button>
              </div>
            </>
          )}
          {out && (
            <>
              <label for="clipout">Out of the desktop</label>
              <textarea id="clipout" class="field" rows={3} readOnly value={m.copied} placeholder="What is copied there comes here" />
              {'clipboard' in navigator && (
                <button
                  type="button"
                  class="button"
                  disabled={!m.copied}
                  onClick={() => void navigator.clipboard.writeText(m.copied).then(() => m.tell('Copied.'), () => m.tell('The browser does not let this page write the clipboard.', true))}
                >
                  Copy to this device
                </button>
              )}
            </>
          )}
        </div>
      )}
    </Menu>
  );
}

const ways: [string, string][] = [['none', 'not at all'], ['in', 'into the desktop'], ['out', 'out of the desktop'], ['both', 'both ways']];

/** share changes which way clipboards are joined; the rest of the policy stays. */
async function share(m: Model, clipboard: string): Promise<void> {
  await m.attempt(async () => {
    await call('PUT', `/v1/desktops/${encodeURIComponent(m.desktop)}/control/policy`, { body: { ...m.about?.control_policy, clipboard } });
    await m.describe();
  });
}

/** shoot saves the screen as it is, without losses. */
async function shoot(m: Model): Promise<void> {
  try {
    const resp = await request('GET', `/v1/desktops/${encodeURIComponent(m.desktop)}/screenshot?cursor=true`);
    save(await resp.blob(), `${m.about?.name ?? m.desktop}-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.png`);
  } catch (e) {
    m.tell(said(e), true);
  }
}

/** save hands a file to the person. */
export function save(data: Blob, name: string): void {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(data);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}

async function fullscreen(page: HTMLElement | null, m: Model): Promise<void> {
  if (document.fullscreenElement) {
    await document.exitFullscreen();
    return;
  }
  try {
    await page?.requestFullscreen();
    // Where the browser can: Ctrl+W and the like go to the desktop.
    await (navigator as Navigator & { keyboard?: { lock(): Promise<void> } }).keyboard?.lock();
  } catch {
    m.tell('The browser does not fill the screen here.');
  }
  m.stage?.focus();
}
