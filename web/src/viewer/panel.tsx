/** What stands beside the picture. */
import type { ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { request, said } from '../common/api';
import { clock } from '../common/format';
import { Files } from './files';
import { IconButton } from './menu';
import type { Model, Tab } from './model';
import { Recordings } from './recordings';

const tabs: [Tab, string][] = [['activity', 'Activity'], ['recordings', 'Recordings'], ['console', 'Console'], ['files', 'Files'], ['logs', 'Logs']];

export function Panel({ m, tab, setTab }: { m: Model; tab: Tab; setTab(t: Tab | ''): void }) {
  const key = (e: KeyboardEvent) => {
    const by = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    if (!by) return;
    const i = tabs.findIndex(([t]) => t === tab);
    const next = tabs.at((i + by) % tabs.length)?.[0] ?? tab;
    setTab(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <aside class="panel" aria-label="Beside the desktop">
      <div class="tabs">
        <div role="tablist" onKeyDown={key}>
          {tabs.map(([t, name]) => (
            <button key={t} id={`tab-${t}`} type="button" role="tab" aria-selected={t === tab} aria-controls="tabpanel" tabIndex={t === tab ? 0 : -1} onClick={() => setTab(t)}>
              {name}
            </button>
          ))}
        </div>
        <IconButton icon="close" label="Close" onClick={() => setTab('')} />
      </div>
      <div class="content" id="tabpanel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === 'activity' && <Activity m={m} />}
        {tab === 'recordings' && <Recordings m={m} />}
        {tab === 'console' && (m.mayAdmin ? <Late m={m} /> : <Lacks what="open a console" role="admin" />)}
        {tab === 'files' && (m.mayAct ? <Files m={m} /> : <Lacks what="see files" role="control" />)}
        {tab === 'logs' && (m.mayAdmin ? <Logs m={m} /> : <Lacks what="read logs" role="admin" />)}
      </div>
    </aside>
  );
}

function Lacks({ what, role }: { what: string; role: string }) {
  return (
    <p class="lacks muted">
      This link does not let you {what}. One of role <b>{role}</b> does.
    </p>
  );
}

function Activity({ m }: { m: Model }) {
  const end = useRef<HTMLLIElement>(null);
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }), [m.lines.length]);
  if (m.lines.length === 0) return <p class="lacks muted">What agents and people do on this desktop comes here as it happens.</p>;
  return (
    <ol class="activity" aria-live="polite">
      {m.lines.map((l) => (
        <li key={l.seq} class={l.kind}>
          <time dateTime={l.time}>{clock(l.time)}</time>
          <span>{l.text}</span>
        </li>
      ))}
      <li ref={end} class="end" aria-hidden="true" />
    </ol>
  );
}

/** Late loads the terminal when somebody wants it. */
function Late({ m }: { m: Model }) {
  const [view, setView] = useState<{ C: ComponentType<{ desktop: string }> } | null>(null);
  const [fault, setFault] = useState('');
  useEffect(() => {
    import('./console').then((c) => setView({ C: c.default }), (e: unknown) => setFault(said(e)));
  }, []);
  if (fault) return <p class="lacks muted">{fault}</p>;
  return view ? <view.C desktop={m.desktop} /> : <p class="lacks muted">Opening…</p>;
}

/** Characters of a log that are kept. */
const logMost = 400_000;

function Logs({ m }: { m: Model }) {
  const [source, setSource] = useState<'serial' | 'qemu'>('serial');
  const [text, setText] = useState('');
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const stop = new AbortController();
    setText('');
    const read = async () => {
      const resp = await request('GET', `/v1/desktops/${encodeURIComponent(m.desktop)}/logs?source=${source}&tail=500&follow=true`, { signal: stop.signal });
      const reader = resp.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const part = await reader?.read();
        if (!part || part.done) return;
        setText((t) => (t + part.value).slice(-logMost));
      }
    };
    read().catch((e: unknown) => !stop.signal.aborted && setText((t) => `${t}\n${said(e)}`));
    return () => stop.abort();
  }, [source]);
  useEffect(() => box.current?.scrollTo({ top: box.current.scrollHeight }), [text]);
  return (
    <div class="logs">
      <div class="row">
        <label for="source">Log of</label>
        <select id="source" class="field" value={source} onChange={(e) => setSource(e.currentTarget.value as 'serial' | 'qemu')}>
          <option value="serial">the serial console</option>
          <option value="qemu">the machine</option>
        </select>
      </div>
      <pre ref={box} tabIndex={0}>{plain(text) || 'Nothing yet.'}</pre>
    </div>
  );
}

/** plain takes terminal sequences out of a log. */
export const plain = (s: string): string => s.replace(/\u001b(\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])/g, '').replace(/\r/g, '');
