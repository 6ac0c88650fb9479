import { useEffect, useReducer } from 'preact/hooks';
import { get, Problem } from '../common/api';
import { follow } from '../common/events';
import type { Desktop, Event } from '../common/types';

/** What the dashboard shows of a desktop. */
export interface Row {
  readonly desktop: Desktop;
  /** Percent of one core over the last look; undefined until there were two. */
  readonly cpu?: number;
}

export type Link = 'opening' | 'up' | 'lost';

/** How long events are gathered before the desktops that they tell of are read, in milliseconds. */
const gather = 150;
/** More changed desktops than this are read as one list. */
const few = 4;
/** How many events are kept. */
const kept = 300;

/**
 * Store has the project's desktops as they are now: read once, then again when an
 * event tells of a change, and now and then for what no event tells. Who shows one
 * desktop hears of that one alone.
 */
export class Store {
  /** Newest first, as the server lists them. */
  ids: string[] = [];
  events: Event[] = [];
  link: Link = 'opening';
  /** Why nothing can be shown any more. */
  over: Problem | undefined;
  loaded = false;
  /** The card that the keyboard is at. */
  current = '';
  /** Grows with everything that is told. */
  told = 0;

  private readonly rows = new Map<string, Row>();
  /** What each row was made of, to know when it changes. */
  private readonly seen = new Map<string, { text: string; cpu: number; at: number }>();
  /** Names of those that are gone, for events that come later. */
  private readonly names = new Map<string, string>();
  private readonly heard = new Map<string, Set<() => void>>();
  private dirty = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private loading: Promise<void> | undefined;
  private readonly stop = new AbortController();

  get(id: string): Row | undefined {
    return this.rows.get(id);
  }

  all(): Row[] {
    return this.ids.flatMap((id) => this.rows.get(id) ?? []);
  }

  /** A desktop's name, of one that is gone too. */
  nameOf(id: string): string {
    return this.rows.get(id)?.desktop.name ?? this.names.get(id) ?? id;
  }

  /** on calls fn when a topic changes: 'list', 'events', 'link', or a desktop's id. */
  on(topic: string, fn: () => void): () => void {
    const set = this.heard.get(topic) ?? new Set();
    this.heard.set(topic, set.add(fn));
    return () => set.delete(fn);
  }

  setCurrent(id: string): void {
    const was = this.current;
    if (was === id) return;
    this.current = id;
    this.tell(was);
    this.tell(id);
  }

  private tell(topic: string): void {
    this.told++;
    for (const fn of this.heard.get(topic) ?? []) fn();
  }

  start(): void {
    void this.load();
    void follow(
      '/v1/events',
      {
        event: (e) => this.take(e),
        up: (connected) => {
          if (connected && this.link === 'lost') void this.load(); // what happened meanwhile may be lost
          this.setLink(connected ? 'up' : 'lost');
        },
        refused: (p) => this.end(p),
      },
      this.stop.signal,
    );
    const again = () => {
      if (this.stop.signal.aborted) return;
      setTimeout(() => void (document.hidden ? Promise.resolve() : this.load()).then(again), this.ids.length > 60 ? 10_000 : 5_000);
    };
    again();
    setInterval(() => this.tell('tick'), 10_000);
  }

  private setLink(l: Link): void {
    if (this.link === l) return;
    this.link = l;
    this.tell('link');
  }

  private end(p: Problem): void {
    this.over = p;
    this.stop.abort();
    this.tell('link');
  }

  private take(e: Event): void {
    if (e.type === 'events.lost') {
      void this.load();
      return;
    }
    if (e.desktop && typeof e.data?.['name'] === 'string') this.names.set(e.desktop, e.data['name']);
    this.events = [e, ...this.events.slice(0, kept - 1)];
    this.tell('events');
    if (!e.desktop || e.type.startsWith('exec.') || e.type.startsWith('viewer.')) return;
    if (e.type === 'desktop.deleted') {
      this.dirty.delete(e.desktop);
      this.drop(e.desktop);
    } else if (this.rows.has(e.desktop) || e.type === 'desktop.created') {
      this.refresh(e.desktop); // of one that is gone already nothing can be read
    }
  }

  /** refresh reads a desktop anew, soon. */
  refresh(id: string): void {
    this.dirty.add(id);
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      const ids = [...this.dirty];
      this.dirty = new Set();
      void (ids.length > few ? this.load() : Promise.all(ids.map((d) => this.one(d))));
    }, gather);
  }

  private async one(id: string): Promise<void> {
    try {
      const d = await get<Desktop>(`/v1/desktops/${id}`);
      if (this.put(d)) this.sort();
    } catch (e) {
      if (e instanceof Problem && e.status === 404) this.drop(id);
      else this.fault(e);
    }
  }

  /** load reads all desktops; calls meanwhile share one. */
  load(): Promise<void> {
    this.loading ??= this.read().finally(() => {
      this.loading = undefined;
    });
    return this.loading;
  }

  private async read(): Promise<void> {
    try {
      const { desktops } = await get<{ desktops: Desktop[] }>('/v1/desktops', this.stop.signal);
      const there = new Set(desktops.map((d) => d.id));
      let fresh = !this.loaded;
      for (const id of this.ids) if (!there.has(id)) fresh = this.forget(id) || fresh;
      for (const d of desktops) fresh = this.put(d) || fresh;
      this.loaded = true;
      if (fresh) this.sort();
    } catch (e) {
      this.fault(e);
    }
  }

  private fault(e: unknown): void {
    if (e instanceof Problem && e.signedOut) this.end(e);
  }

  /** put takes a desktop in; true when it was not there before. */
  private put(d: Desktop): boolean {
    const now = performance.now();
    const was = this.seen.get(d.id);
    const { cpu_seconds: taken = 0, memory_private_bytes: memory = 0, ...rest } = d;
    const row = this.rows.get(d.id);
    let cpu = row?.cpu;
    let mark = { cpu: taken, at: now };
    if (was && taken >= was.cpu && taken > 0) {
      // Two looks close together say little.
      if (now - was.at >= 1_000) cpu = Math.round(((taken - was.cpu) / (now - was.at)) * 100_000);
      else mark = { cpu: was.cpu, at: was.at };
    } else {
      cpu = undefined;
    }
    const text = JSON.stringify([rest, Math.round(memory / (1 << 20)), cpu]);
    this.seen.set(d.id, { text, ...mark });
    if (was?.text === text) return false;
    this.names.set(d.id, d.name);
    this.rows.set(d.id, cpu === undefined ? { desktop: d } : { desktop: d, cpu });
    this.tell(d.id);
    // Numbers alone change no list; what is filtered by does.
    if (row && row.desktop.state === d.state && row.desktop.name === d.name) this.tell('totals');
    else this.tell('list');
    return !row;
  }

  private drop(id: string): void {
    if (this.forget(id)) this.sort();
  }

  private forget(id: string): boolean {
    this.seen.delete(id);
    return this.rows.delete(id);
  }

  private sort(): void {
    this.ids = [...this.rows.values()]
      .map((r) => r.desktop)
      .sort((a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : a.id < b.id ? -1 : 1))
      .map((d) => d.id);
    this.tell('list');
  }
}

/** useTopic draws a component again when a topic of the store changes, at most once a frame. */
export function useTopic(store: Store, ...topics: string[]): void {
  const [, draw] = useReducer<number, void>((n) => n + 1, 0);
  const drawn = store.told;
  useEffect(() => {
    let due = 0;
    const soon = () => {
      due ||= requestAnimationFrame(() => {
        due = 0;
        draw();
      });
    };
    const off = topics.map((t) => store.on(t, soon));
    if (store.told !== drawn) soon(); // between drawing and listening nothing may be missed
    return () => {
      cancelAnimationFrame(due);
      for (const stop of off) stop();
    };
  }, [store, ...topics]);
}
