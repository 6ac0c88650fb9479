import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { said } from '../common/api';
import { bytes } from '../common/format';
import { Icon, Mark, type IconName } from '../common/icons';
import { can } from '../common/session';
import { setTheme, theme, type Theme } from '../common/theme';
import type { State, View } from '../common/types';
import { PageContext, type Asked, type Page } from './context';
import { Dialog } from './dialogs';
import { Feed } from './feed';
import { matches } from './filter';
import { Grid } from './grid';
import { Lineage } from './lineage';
import { Menu } from './menu';
import { useTopic, type Store } from './store';
import type { Thumbs } from './thumbs';
import { Usage } from './usage';
import { run, type Verb } from './verbs';
import { states, tone } from './words';

const tabs = [
  { id: 'desktops', label: 'Desktops', icon: 'screen' },
  { id: 'lineage', label: 'Lineage', icon: 'tree' },
  { id: 'use', label: 'Use', icon: 'chart' },
  { id: 'events', label: 'Events', icon: 'list' },
] as const satisfies { id: string; label: string; icon: IconName }[];

type Tab = (typeof tabs)[number]['id'];

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

let toasts = 0;

export function App({ store, thumbs, view }: { store: Store; thumbs: Thumbs; view: View }) {
  const [tab, setTab] = useState<Tab>('desktops');
  const [text, setText] = useState('');
  const [only, setOnly] = useState<ReadonlySet<State>>(new Set());
  const [asked, setAsked] = useState<Asked>();
  const [open, setOpen] = useState<{ id: string; at: HTMLElement }>();
  const [said_, setSaid] = useState<Toast[]>([]);
  const search = useRef<HTMLInputElement>(null);

  const say = useCallback((line: string, bad = false) => {
    const id = ++toasts;
    setSaid((all) => [...all.slice(-2), { id, text: line, bad }]);
    setTimeout(() => setSaid((all) => all.filter((t) => t.id !== id)), bad ? 12_000 : 4_000);
  }, []);
  const page = useMemo<Page>(() => ({
    store,
    thumbs,
    role: view.role,
    ask: setAsked,
    say,
    menu: (id, at) => setOpen({ id, at }),
    act: (verb: Verb, desktop) => {
      if (verb === 'fork' || verb === 'snapshot' || verb === 'delete') {
        setAsked({ kind: verb, desktop });
        return;
      }
      run(verb, desktop).then((line) => say(line), (e: unknown) => say(`${desktop.name}: ${said(e)}`, true));
    },
    show: (id) => {
      setTab('desktops');
      setText('');
      setOnly(new Set());
      store.setCurrent(id);
      setTimeout(() => {
        const link = document.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"] .shot`);
        link?.focus();
        link?.scrollIntoView({ block: 'center' });
      }, 50);
    },
  }), [store, thumbs, view.role]);

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open], .menu')) return;
      const at = e.target as HTMLElement;
      if (at.matches('input, select, textarea')) {
        if (e.key === 'Escape' && at === search.current) {
          setText('');
          document.querySelector<HTMLElement>('.shot[tabindex="0"]')?.focus();
        }
        if (e.key === 'ArrowDown' && at === search.current) document.querySelector<HTMLElement>('.shot[tabindex="0"]')?.focus();
        return;
      }
      const does: Record<string, () => void> = {
        '/': () => {
          setTab('desktops');
          if (search.current) search.current.focus(); // at once: what is typed next is for it
          else setTimeout(() => search.current?.focus());
        },
        n: () => can(view.role, 'control') && setAsked({ kind: 'create' }),
        t: () => setTheme(nextTheme()),
        '?': () => setAsked({ kind: 'keys' }),
        ...Object.fromEntries(tabs.map((t, i) => [String(i + 1), () => setTab(t.id)])),
      };
      const act = does[e.key];
      if (!act) return;
      e.preventDefault();
      act();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, [view.role]);

  return (
    <PageContext.Provider value={page}>
      <header class="bar">
        <a class="brand" href="/"><Mark /><span>Deskfork</span><span class="project" title="Project">{view.project}</span></a>
        <nav class="tabs" aria-label="Views">
          {tabs.map((t) => (
            <button type="button" key={t.id} class="tab" data-tab={t.id} aria-current={tab === t.id ? 'page' : undefined} onClick={() => setTab(t.id)}>
              <Icon name={t.icon} /><span>{t.label}</span>
            </button>
          ))}
        </nav>
        <span class="bar-end">
          <LinkState store={store} />
          <button type="button" class="button quiet icon keys-button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => setAsked({ kind: 'keys' })}><Icon name="keyboard" /></button>
          <ThemeButton />
          <button type="button" class="button primary" disabled={!can(view.role, 'control')} title={can(view.role, 'control') ? 'New desktop (n)' : 'This link may only look'} onClick={() => setAsked({ kind: 'create' })}>
            <Icon name="plus" /><span>New desktop</span>
          </button>
        </span>
      </header>
      <div class="body" data-tab={tab}>
        <main>
          {tab === 'desktops' && <Desktops store={store} text={text} only={only} setText={setText} setOnly={setOnly} search={search} role={view.role} create={() => setAsked({ kind: 'create' })} />}
          {tab === 'lineage' && <Lineage />}
          {tab === 'use' && <Usage />}
          {tab === 'events' && <section class="panel"><Feed /></section>}
          <footer class="foot muted">
            <span>This link may <b>{{ view: 'look', control: 'look, create, fork, pause and take control', admin: 'do everything' }[view.role]}</b>{view.expires && <> until {new Date(view.expires).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' })}</>}.</span>
            {!can(view.role, 'control') && <span><code>vmhost open --role control</code> makes one that may do more.</span>}
          </footer>
        </main>
        {tab === 'desktops' && (
          <aside class="side" aria-label="Events">
            <h2>Events</h2>
            <Feed most={80} brief />
          </aside>
        )}
      </div>
      {asked && <Dialog key={asked.kind} asked={asked} close={() => setAsked(undefined)} />}
      {open && <Menu key={open.id} id={open.id} at={open.at} close={() => setOpen(undefined)} />}
      <div class="toasts" role="status" aria-live="polite">
        {said_.map((t) => <p key={t.id} class="toast" data-bad={t.bad}>{t.text}</p>)}
      </div>
    </PageContext.Provider>
  );
}

interface DesktopsProps {
  store: Store;
  text: string;
  only: ReadonlySet<State>;
  setText(t: string): void;
  setOnly(s: ReadonlySet<State>): void;
  search: preact.RefObject<HTMLInputElement | null>;
  role: View['role'];
  create(): void;
}

function Desktops({ store, text, only, setText, setOnly, search, role, create }: DesktopsProps) {
  useTopic(store, 'list');
  const all = store.all().map((r) => r.desktop);
  const found = all.filter((d) => matches(d, text));
  const shown = found.filter((d) => only.size === 0 || only.has(d.state));
  const ids = shown.map((d) => d.id).join(' ');
  const stable = useMemo(() => (ids ? ids.split(' ') : []), [ids]);
  const flip = (s: State) => {
    const next = new Set(only);
    if (!next.delete(s)) next.add(s);
    setOnly(next);
  };
  return (
    <>
      <div class="tools">
        <label class="search">
          <Icon name="search" />
          <span class="sr">Search by name, label, image or holder</span>
          <input ref={search} class="field" type="search" placeholder="Search names, labels, images" value={text} onInput={(e) => setText(e.currentTarget.value)} autocomplete="off" spellcheck={false} />
          <kbd>/</kbd>
        </label>
        <div class="chips" role="group" aria-label="States">
          {states.filter((s) => only.has(s) || found.some((d) => d.state === s)).map((s) => (
            <button type="button" key={s} class="chip" data-tone={tone[s]} data-state={s} aria-pressed={only.has(s)} onClick={() => flip(s)}>
              <i class="dot" data-tone={tone[s]} />{s} <b>{found.filter((d) => d.state === s).length}</b>
            </button>
          ))}
        </div>
        <Totals store={store} shown={shown.length} />
      </div>
      {shown.length > 0 && <Grid ids={stable} />}
      {shown.length === 0 && store.loaded && (
        <div class="notice">
          <h1>{all.length === 0 ? 'No desktops yet' : 'Nothing matches'}</h1>
          <p>{all.length === 0 ? 'A desktop is a whole machine with a screen. It starts in a moment, and can be forked while it runs.' : 'No desktop has all of these words and one of these states.'}</p>
          {all.length === 0
            ? <button type="button" class="button primary" disabled={!can(role, 'control')} onClick={create}><Icon name="plus" />New desktop</button>
            : <button type="button" class="button" onClick={() => { setText(''); setOnly(new Set()); }}>Show all {all.length}</button>}
        </div>
      )}
    </>
  );
}

function Totals({ store, shown }: { store: Store; shown: number }) {
  useTopic(store, 'totals', 'list');
  const rows = store.all();
  const cpu = rows.reduce((sum, r) => sum + (r.cpu ?? 0), 0);
  const memory = rows.reduce((sum, r) => sum + (r.desktop.memory_private_bytes ?? 0), 0);
  return (
    <p class="totals muted" aria-live="off">
      <span><b>{shown === rows.length ? rows.length : `${shown} of ${rows.length}`}</b> {rows.length === 1 ? 'desktop' : 'desktops'}</span>
      <span title="Of the host, all desktops"><b>{cpu < 100 ? `${cpu} %` : (cpu / 100).toFixed(1)}</b> {cpu < 100 ? 'of a core' : 'cores'}</span>
      <span title="Of their own, all desktops"><b>{bytes(memory)}</b> memory</span>
    </p>
  );
}

function LinkState({ store }: { store: Store }) {
  useTopic(store, 'link');
  const words = { opening: 'Connecting', up: 'Live', lost: 'Reconnecting' }[store.link];
  return (
    <span class="link-state" data-tone={{ opening: 'busy', up: 'good', lost: 'bad' }[store.link]} role="status" title={store.link === 'up' ? 'What happens shows at once' : 'The server does not answer'}>
      <i class="dot" data-tone={{ opening: 'busy', up: 'good', lost: 'bad' }[store.link]} /><span>{words}</span>
    </span>
  );
}

const nextTheme = (): Theme => ({ auto: 'light', light: 'dark', dark: 'auto' } as const)[theme()];

function ThemeButton() {
  const [now, setNow] = useState(theme());
  useEffect(() => {
    const seen = new MutationObserver(() => setNow(theme()));
    seen.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => seen.disconnect();
  }, []);
  const label = { auto: 'as the system', light: 'light', dark: 'dark' }[now];
  return (
    <button type="button" class="button quiet icon" aria-label={`Colours: ${label}`} title={`Colours: ${label} (t)`} onClick={() => { setTheme(nextTheme()); setNow(theme()); }}>
      <Icon name={({ auto: 'auto', light: 'sun', dark: 'moon' } as const)[now]} />
    </button>
  );
}

