/** What the viewer's page knows, and what it does when something happens. */
import { said, Problem } from '../common/api';
import { follow } from '../common/events';
import { can } from '../common/session';
import type { Control, Event, View } from '../common/types';
import { lines, marks, type Line, type Mark } from './activity';
import { Uploads } from './drop';
import { Lease, who } from './lease';
import { Link, over, type About, type Status } from './link';
import { Stage, type Elements, type Scale } from './stage';
import { Reel } from './reel';
import type { Carrier, Figures } from './way';
import type { Said } from './wire';

export type Tab = 'activity' | 'recordings' | 'console' | 'files' | 'logs';

/** What a person is told for a moment. */
export interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

/** Lines of activity that are kept, and how long a mark is on the picture in milliseconds. */
const linesMost = 200;
const markTime = 2200;

export class Model {
  status: Status = { phase: 'connecting', title: 'Connecting…', text: '' };
  about: About | null = null;
  control: Control | null = null;
  carrier: Carrier = 'webrtc';
  lines: Line[] = [];
  marks: Mark[] = [];
  toasts: Toast[] = [];
  /** The bar that offers control is shown: the person has clicked without having it. */
  offering = false;
  busy = false;
  scale: Scale = 'fit';
  /** The last text that came out of the desktop's clipboard. */
  copied = '';
  stage: Stage | null = null;
  readonly link: Link;
  readonly lease: Lease;
  readonly uploads: Uploads;
  readonly reel: Reel;

  private readonly stop = new AbortController();
  private last = 0;
  /** How the server names this person, since he first had control. */
  private me = '';

  constructor(
    readonly view: View,
    readonly desktop: string,
    private readonly el: Elements,
    private readonly changed: () => void,
    /** Leads the keyboard back to the page's buttons. */
    private readonly leave: () => void,
    only: Carrier | '' = '',
  ) {
    this.lease = new Lease(desktop, (now, lost) => this.leased(now, lost));
    this.uploads = new Uploads(desktop, () => this.changed());
    this.reel = new Reel(desktop, () => this.changed());
    this.link = new Link(desktop, el.video, el.canvas, {
      status: (s) => this.said(s),
      about: (a) => this.described(a),
      carrier: (c) => {
        this.carrier = c;
        this.stage?.show(c);
        this.changed();
      },
      size: (w, h) => this.stage?.resize(w, h),
      said: (m) => this.heard(m),
    }, only);
  }

  /** May the person take control at all? */
  get mayAct(): boolean {
    return can(this.view.role, 'control');
  }

  get mayAdmin(): boolean {
    return this.view.role === 'admin';
  }

  get mine(): boolean {
    return this.control?.mine === true;
  }

  start(): void {
    this.stage = new Stage(this.el, this.link.pen, {
      send: (m, lossy) => this.link.send(m, lossy),
      knocked: () => this.knocked(),
      left: this.leave,
    });
    this.stage.show(this.carrier);
    this.link.start();
    const signal = this.stop.signal;
    void this.follow(signal);
    window.addEventListener('online', () => this.link.poke(), { signal });
    document.addEventListener('visibilitychange', () => !document.hidden && this.link.poke(), { signal });
    window.addEventListener('pagehide', () => {
      this.stage?.letGo();
      this.lease.leave();
      this.link.leave();
    }, { signal });
    window.addEventListener('pageshow', (e) => e.persisted && this.link.start(), { signal });
    const left = Date.parse(this.view.expires ?? '') - Date.now();
    if (left > 60_000 && left < 2 ** 31) setTimeout(() => this.tell('This link ends in a minute.'), left - 60_000);
  }

  close(): void {
    this.stop.abort();
    this.lease.close();
    this.link.close();
    this.stage?.close();
  }

  tell(text: string, bad = false): void {
    const toast = { id: ++this.last, text, bad };
    this.toasts = [...this.toasts.filter((t) => t.text !== text).slice(-2), toast];
    this.changed();
    setTimeout(() => {
      this.toasts = this.toasts.filter((t) => t !== toast);
      this.changed();
    }, bad ? 8000 : 4000);
  }

  /** attempt does something for the person, and tells what went wrong. */
  async attempt(what: () => Promise<unknown>): Promise<boolean> {
    this.busy = true;
    this.changed();
    try {
      await what();
      return true;
    } catch (e) {
      this.tell(e instanceof Problem && e.code === 'control_held' ? this.held() : said(e), true);
      return false;
    } finally {
      this.busy = false;
      this.changed();
    }
  }

  async take(): Promise<void> {
    if (await this.attempt(() => this.lease.take())) this.stage?.focus();
  }

  setScale(s: Scale): void {
    this.scale = s;
    this.stage?.setScale(s);
    this.changed();
  }

  again(): void {
    if (this.status.phase === 'over' || this.status.phase === 'gone' || this.status.phase === 'failed') this.link.start();
    else this.link.poke();
  }

  /** paste puts a text into the desktop's clipboard. */
  paste(text: string): void {
    const m = this.link.pen.clip(text);
    if (!m) this.tell('The text is too long for the clipboard: at most 60 kB. Drop it as a file instead.', true);
    else {
      this.link.send(m);
      this.tell('The text is in the desktop’s clipboard. Paste it there.');
    }
  }

  private held(): string {
    const c = this.control;
    if (!c?.held) return 'Control could not be taken.';
    return `${who(c.holder, c.kind)} has control and keeps it. Ask for it instead.`;
  }

  private said(s: Status): void {
    const before = this.status.phase;
    this.status = s;
    if (s.phase === 'live' && before !== 'live') void this.lease.back().catch(() => undefined); // events tell, too
    if (s.phase !== 'live') this.stage?.drive(false);
    else this.stage?.drive(this.mine);
    this.changed();
  }

  private described(a: About): void {
    this.about = a;
    document.title = `${a.name} · Deskfork`;
    if (this.stage) {
      this.stage.keyboard.layout = a.keyboard ?? '';
      this.stage.resize(a.display.width, a.display.height);
    }
    this.changed();
  }

  private leased(now: Control, lost: boolean): void {
    const had = this.control;
    this.control = now;
    this.stage?.drive(now.mine === true && this.status.phase === 'live');
    if (now.mine) {
      this.offering = false;
      this.me = now.holder ?? '';
    }
    if (lost && !this.lease.left) this.tell(now.held ? `${who(now.holder, now.kind)} has taken control.` : 'You do not have control any more.');
    if (now.mine && (now.asking?.length ?? 0) > (had?.mine ? (had.asking?.length ?? 0) : 0)) {
      const ask = now.asking?.at(-1);
      this.tell(`${who(ask?.holder, ask?.kind)} asks for control.`);
    }
    this.changed();
  }

  private knocked(): void {
    if (!this.mayAct || this.status.phase !== 'live') {
      if (!this.mayAct) this.tell('This link is for watching only.');
      return;
    }
    this.offering = true;
    this.changed();
  }

  private heard(m: Said): void {
    if (m.kind === 'refused') {
      if (m.code === 'control_held' || m.code === 'forbidden') void this.lease.refresh().catch(() => undefined);
      if (m.code === 'control_held' && !this.mine) return; // it was on its way when control went
      this.tell(m.code === 'control_held' ? this.held() : `That was not done: ${m.text || m.code}.`, true);
    } else if (m.kind === 'clip') {
      this.copied = m.text;
      this.changed();
    } else {
      this.stage?.said(m);
    }
  }

  private async follow(signal: AbortSignal): Promise<void> {
    await follow(`/v1/desktops/${encodeURIComponent(this.desktop)}/events`, {
      event: (e) => this.happened(e),
      up: (c) => {
        if (!c) return;
        void this.lease.refresh().catch(() => undefined);
        void this.reel.refresh().catch(() => undefined); // the list tells, too
      },
      refused: (p) => {
        const end = over(p);
        if (end && this.status.phase !== 'over') this.link.poke();
      },
    }, signal);
  }

  private happened(e: Event): void {
    const list = lines(e, this.me);
    if (list.length > 0) this.lines = [...this.lines, ...list].slice(-linesMost);
    const drawn = marks(e);
    if (drawn.length > 0) {
      this.marks = [...this.marks, ...drawn].slice(-24);
      setTimeout(() => {
        this.marks = this.marks.filter((m) => !drawn.includes(m));
        this.changed();
      }, markTime);
    }
    if (e.type.startsWith('control.')) void this.lease.refresh().catch(() => undefined);
    if (e.type.startsWith('recording.')) void this.reel.refresh().catch(() => undefined);
    if (e.type.startsWith('desktop.')) this.link.poke();
    this.changed();
  }

  /** describe reads anew what the server knows of the desktop. */
  async describe(): Promise<void> {
    await this.link.about();
  }

  async figures(): Promise<Figures | null> {
    return this.link.figures();
  }
}
