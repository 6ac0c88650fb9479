import { useEffect, useRef, useState } from 'preact/hooks';
import { age, bytes } from '../common/format';
import { Icon } from '../common/icons';
import { usePage } from './context';
import { useTopic } from './store';
import { may, verbs, type Verb } from './verbs';
import { hasScreen, origin, reason, tone } from './words';

/** Card is one desktop. It draws itself again when that desktop changes, and for no other reason. */
export function Card({ id }: { id: string }) {
  const page = usePage();
  useTopic(page.store, id);
  const row = page.store.get(id);
  if (!row) return null;
  const { desktop: d, cpu } = row;
  const current = page.store.current === id;
  const tab = current ? 0 : -1;
  const why = reason(d);
  const labels = Object.entries(d.labels ?? {});
  return (
    <li class="card" data-id={id} data-state={d.state} data-tone={tone[d.state]}>
      <Shot id={id} tab={tab} name={d.name} state={d.state} why={why} />
      <div class="card-head">
        <h3 class="truncate" title={`${d.name} (${id})`}>{d.name}</h3>
        <span class="pill" data-tone={tone[d.state]}>{d.state}</span>
      </div>
      <p class="card-why truncate" title={why || origin(d)}>{why || origin(d)}</p>
      <dl class="facts">
        <Fact name="Age"><Age since={d.created} /></Fact>
        <Fact name="CPU" title="Of one core of the host">{cpu === undefined ? '–' : `${cpu} %`}</Fact>
        <Fact name="Memory" title="Its own, beyond what it shares with its template">{d.memory_private_bytes ? bytes(d.memory_private_bytes) : '–'}</Fact>
        <Fact name="Accel" title={d.accelerator === 'tcg' ? 'Emulated: slow' : 'Hardware virtualisation'}>{d.accelerator ?? '–'}</Fact>
      </dl>
      <div class="card-foot">
        <span class="labels truncate">
          {labels.length === 0 ? <span class="muted">{d.shape}</span> : labels.map(([k, v]) => <span class="label" key={k}>{v ? `${k}=${v}` : k}</span>)}
        </span>
        <span class="card-acts">
          <Act verb="fork" id={id} tab={tab} />
          <Act verb={d.state === 'paused' || d.state === 'suspended' ? 'resume' : 'pause'} id={id} tab={tab} />
          <button type="button" class="button quiet icon" tabIndex={tab} aria-label={`More for ${d.name}`} aria-haspopup="menu" title="More (.)" onClick={(e) => page.menu(id, e.currentTarget)}>
            <Icon name="more" />
          </button>
        </span>
      </div>
    </li>
  );
}

function Fact({ name, title, children }: { name: string; title?: string; children: preact.ComponentChildren }) {
  return (
    <div title={title}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Age({ since }: { since: string }) {
  useTopic(usePage().store, 'tick');
  return <time dateTime={since} title={new Date(since).toLocaleString()}>{age(since, Date.now())}</time>;
}

function Act({ verb, id, tab }: { verb: Verb; id: string; tab: number }) {
  const page = usePage();
  const d = page.store.get(id)?.desktop;
  if (!d) return null;
  const v = verbs[verb];
  return (
    <button
      type="button"
      class="button quiet icon"
      data-verb={verb}
      tabIndex={tab}
      disabled={!may(page.role, verb, d)}
      aria-label={`${v.label} ${d.name}`}
      title={`${v.label} (${v.key})`}
      onClick={() => page.act(verb, d)}
    >
      <Icon name={v.icon} />
    </button>
  );
}

interface ShotProps {
  id: string;
  tab: number;
  name: string;
  state: import('../common/types').State;
  why: string;
}

const stateIcon = { starting: 'power', paused: 'pause', suspended: 'moon', failed: 'alert', stopped: 'power', deleting: 'trash', ready: 'screen' } as const;

/** Shot is the live picture, which leads to the desktop. A desktop at rest shows what it showed last. */
function Shot({ id, tab, name, state, why }: ShotProps) {
  const page = usePage();
  const img = useRef<HTMLImageElement>(null);
  const [shown, setShown] = useState(false);
  const live = hasScreen(state);
  useEffect(() => {
    if (!img.current) return;
    return page.thumbs.watch(id, img.current, () => setShown(true));
  }, [id]);
  useEffect(() => page.thumbs.live(id, live), [id, live]);
  const holder = page.store.get(id)?.desktop.in_control;
  return (
    <a
      class="shot"
      href={`/view/${encodeURIComponent(id)}`}
      tabIndex={tab}
      data-shown={shown}
      data-live={live && state !== 'paused'}
      aria-label={`Open ${name}, ${state}${why ? `, ${why}` : ''}${holder ? `, controlled by ${holder.kind} ${holder.holder}` : ''}`}
      onFocus={() => page.store.setCurrent(id)}
    >
      <img ref={img} alt="" draggable={false} hidden={!shown} />
      {(!shown || state !== 'ready') && (
        <span class="veil" aria-hidden="true">
          <Icon name={stateIcon[state]} />
        </span>
      )}
      {holder && (
        <span class="holder" data-kind={holder.kind} title={`${holder.kind} ${holder.holder} has control`}>
          <Icon name={holder.kind === 'person' ? 'hand' : 'robot'} />
          <span class="truncate">{holder.holder}</span>
        </span>
      )}
    </a>
  );
}
