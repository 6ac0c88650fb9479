/** What others do on the desktop, in words and as marks on its picture. */
import type { Event } from '../common/types';
import { who } from './lease';
import type { Point } from './wire';

export interface Line {
  seq: number;
  time: string;
  text: string;
  /** Whose it is, for its colour. */
  kind: 'agent' | 'person' | 'host';
}

export interface Mark extends Point {
  seq: number;
  shape: 'click' | 'scroll' | 'path';
  path?: Point[];
  label?: string;
}

/** One action of a batch, as the event input.begun tells of it. */
interface Action {
  kind: string;
  x?: number;
  y?: number;
  button?: string;
  count?: number;
  keys?: string;
  text?: string;
  dx?: number;
  dy?: number;
  path?: [number, number][];
}

const short = (s: string, most = 60): string => (s.length > most ? `${s.slice(0, most - 1)}…` : s);
const at = (a: Action): string => (a.x === undefined || a.y === undefined ? '' : ` at ${a.x}, ${a.y}`);

/** words says what an action was; empty: nothing worth to tell. */
export function words(a: Action): string {
  switch (a.kind) {
    case 'click':
      return `${a.count === 2 ? 'double-clicked' : a.count === 3 ? 'triple-clicked' : a.button && a.button !== 'left' ? `${a.button}-clicked` : 'clicked'}${at(a)}`;
    case 'down':
      return a.keys ? `held ${a.keys}` : `pressed the ${a.button ?? 'left'} button${at(a)}`;
    case 'up':
      return '';
    case 'drag':
      return `dragged from ${a.path?.[0]?.join(', ') ?? '?'} to ${a.path?.at(-1)?.join(', ') ?? '?'}`;
    case 'scroll':
      return `scrolled ${a.dy ? (a.dy > 0 ? 'down' : 'up') : (a.dx ?? 0) > 0 ? 'right' : 'left'}${at(a)}`;
    case 'key':
    case 'hold':
      return `pressed ${a.keys ?? 'a key'}`;
    case 'text':
      return `typed “${short(a.text ?? '')}”`;
  }
  return '';
}

/** marks are what an event draws on the picture. */
export function marks(e: Event): Mark[] {
  if (e.type !== 'input.begun') return [];
  const out: Mark[] = [];
  const actions = (e.data?.['actions'] ?? []) as Action[];
  let last: Point | null = null;
  actions.forEach((a, i) => {
    const seq = e.seq * 100 + i;
    if (a.x !== undefined && a.y !== undefined) last = { x: a.x, y: a.y };
    if (a.kind === 'drag' && a.path?.length) {
      const path = a.path.map(([x, y]) => ({ x, y }));
      last = path.at(-1) ?? null;
      if (last) out.push({ ...last, seq, shape: 'path', path });
    } else if ((a.kind === 'click' || a.kind === 'down') && last && !a.keys) {
      out.push({ ...last, seq, shape: 'click' });
    } else if (a.kind === 'scroll' && last) {
      out.push({ ...last, seq, shape: 'scroll' });
    } else if ((a.kind === 'text' || a.kind === 'key') && last) {
      out.push({ ...last, seq, shape: 'click', label: short(a.text ?? a.keys ?? '', 32) });
    }
  });
  return out;
}

const text = (v: unknown): string => (typeof v === 'string' ? v : '');

/** lines says what an event was, in words for people; none: it is nothing for them. me is the person's own name. */
export function lines(e: Event, me = ''): Line[] {
  const d = e.data ?? {};
  const kind = d['kind'] === 'person' ? 'person' : 'agent';
  const holder = text(d['holder']) || text(d['who']);
  const name = me && holder === me ? 'You' : who(holder, kind);
  const one = (t: string, by: Line['kind'] = 'host'): Line[] => [{ seq: e.seq, time: e.time, text: t, kind: by }];
  switch (e.type) {
    case 'input.begun': {
      const done = ((d['actions'] ?? []) as Action[]).map(words).filter(Boolean);
      const more = Number(d['more'] ?? 0);
      if (done.length === 0) return [];
      return one(`${name} ${done.slice(0, 4).join(', ')}${done.length > 4 || more > 0 ? `, and ${done.length - Math.min(4, done.length) + more} more` : ''}`, kind);
    }
    case 'control.taken':
      return one(`${name} took control`, kind);
    case 'control.given':
      return one(`Control went to ${/^(You|Another|An )/.test(name) ? name.toLowerCase() : name}`, kind);
    case 'control.released':
      return one(`${name} gave control back`, kind);
    case 'control.lost':
      return one(`${name} lost control`, kind);
    case 'control.asked':
      return one(`${name} ${name === 'You' ? 'ask' : 'asks'} for control`, kind);
    case 'viewer.joined':
      if (me && text(d['viewer']) === me) return [];
      return one(text(d['role']) === 'view' ? 'Somebody came to watch' : 'Somebody who may take control came to watch');
    case 'viewer.left':
      return me && text(d['viewer']) === me ? [] : one('Somebody left');
    case 'recording.started':
      return text(d['follows']) ? [] : one('What is seen is recorded from now on');
    case 'recording.ended':
      return ['size', 'long'].includes(text(d['reason'])) ? [] : one('The recording ended');
    case 'recording.removed':
      return one('A recording was removed');
    case 'exec.started':
      return one(`A program was started${text(d['command']) ? `: ${short(text(d['command']))}` : ''}`);
    case 'exec.ended':
      return one('A program ended');
    case 'events.lost':
      return one('Some events were missed');
  }
  const state = /^desktop\.(\w+)$/.exec(e.type)?.[1];
  return state && state !== 'stage' ? one(`The desktop was ${state === 'ready' ? 'made ready' : state}`) : [];
}
