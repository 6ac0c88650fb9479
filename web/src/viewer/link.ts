/** Keeps a picture on the page: finds a way, another one when it fails, and comes back by itself. */
import { get, Problem, said } from '../common/api';
import type { State } from '../common/types';
import { RtcWay } from './rtc';
import { SocketWay } from './socket';
import type { Carrier, Figures, Listener, Way } from './way';
import { Pen, type Said } from './wire';

/** What a page may know of the desktop that it shows. */
export interface About {
  id: string;
  name: string;
  state: State;
  waiting?: string;
  failure?: { code: string; detail?: string; hint?: string };
  display: { width: number; height: number };
  keyboard?: string;
  control_policy?: { take?: string; exec?: string; clipboard?: string; drop?: string };
}

export type Phase = 'connecting' | 'live' | 'reconnecting' | 'asleep' | 'over' | 'gone' | 'failed';

export interface Status {
  phase: Phase;
  title: string;
  /** What can be done about it, or why; may be empty. */
  text: string;
}

export interface Events {
  status(s: Status): void;
  about(a: About): void;
  /** Which of the page's elements shows the picture. */
  carrier(c: Carrier): void;
  size(width: number, height: number): void;
  said(m: Said): void;
}

/** How long WebRTC may take for its first picture before the WebSocket is tried, in milliseconds. */
const rtcLimit = 2500;
const socketLimit = 8000;
/** How long WebRTC is left alone after it has failed. */
const rtcRest = 5 * 60_000;
/** Silence after which a way counts as lost: a still screen is shown once a second. */
const silence = 4000;

/** pause is how long to wait before another attempt, in milliseconds. */
export const pause = (failures: number): number => Math.min(3000, 250 * 2 ** Math.min(failures, 8));

/** asleep says in words why a desktop has no picture now; null: it has one. */
export function asleep(a: About): Status | null {
  const say = (title: string, text: string): Status => ({ phase: 'asleep', title, text });
  switch (a.state) {
    case 'suspended':
      return say('The desktop is suspended', 'It keeps its state and uses no memory. It is shown here as soon as somebody resumes it.');
    case 'paused':
      return say('The desktop is paused', 'Nothing moves in it. It goes on here as soon as somebody resumes it.');
    case 'stopped':
      return say('The desktop is stopped', 'Its machine is off.');
    case 'starting':
      return say('The desktop is starting', a.waiting ?? 'Its screen is shown as soon as there is one.');
    case 'deleting':
      return { phase: 'gone', title: 'The desktop is gone', text: 'Somebody has deleted it.' };
    case 'failed':
      return { phase: 'failed', title: 'The desktop has failed', text: [a.failure?.detail, a.failure?.hint].filter(Boolean).join(' ') };
    case 'ready':
  }
  return null;
}

/** over says in words that an error is the end; null: it is worth another attempt. */
export function over(e: unknown): Status | null {
  if (!(e instanceof Problem)) return null;
  switch (e.status) {
    case 401:
      return { phase: 'over', title: 'This link is not valid any more', text: 'Links end with their time, or when somebody ends them. Ask for a new one.' };
    case 403:
      return { phase: 'over', title: 'This link does not open the desktop', text: said(e) };
    case 404:
      return { phase: 'gone', title: 'The desktop is gone', text: 'Somebody has deleted it, or the link is wrong.' };
    case 501:
      return { phase: 'failed', title: 'This desktop cannot be watched', text: said(e) };
  }
  return null;
}

export class Link {
  readonly pen = new Pen();
  way: Way | null = null;
  /** Why WebRTC was not used; empty: it was not tried, or works. */
  rtcFault = '';
  frames = 0;

  private rtcFailed = -Infinity;
  private wake: (() => void) | null = null;
  private stop = new AbortController();
  private ended: Promise<void> = Promise.resolve();
  private drop: ((why: string) => void) | null = null;

  constructor(
    private readonly desktop: string,
    private readonly video: HTMLVideoElement,
    private readonly canvas: HTMLCanvasElement,
    private readonly on: Events,
    /** Only this carrier, for tests and for who wants to know. */
    private readonly only: Carrier | '' = '',
  ) {}

  start(): void {
    this.stop = new AbortController();
    const signal = this.stop.signal;
    this.ended = this.ended.then(() => this.run(signal));
  }

  /** poke tries at once, not after the pause: the network is back, or the person asks. */
  poke(): void {
    this.wake?.();
  }

  /** again drops the way and looks for another, WebRTC first. */
  again(): void {
    this.rtcFailed = -Infinity;
    this.drop?.('another way is looked for');
    this.wake?.();
  }

  close(): void {
    this.stop.abort();
    this.drop?.('');
    this.wake?.();
  }

  /** leave ends the way at once: the page goes. */
  leave(): void {
    const way = this.way;
    this.stop.abort();
    way?.close(true);
    this.drop?.('');
    this.wake?.();
  }

  send(message: ArrayBuffer, lossy = false): void {
    this.way?.send(message, lossy);
  }

  private async run(signal: AbortSignal): Promise<void> {
    let lived = false;
    for (let failures = 0; !signal.aborted; ) {
      if (!lived) this.on.status({ phase: 'connecting', title: 'Connecting…', text: '' });
      try {
        const about = await this.about(signal);
        const sleeps = asleep(about);
        if (sleeps) {
          this.on.status(sleeps);
          if (sleeps.phase === 'gone') return;
          await this.rest(2000);
          continue;
        }
        const lost = await this.live(signal, about);
        lived = true;
        failures = 0;
        if (signal.aborted) return;
        this.on.status({ phase: 'reconnecting', title: 'Reconnecting…', text: sentence(lost) });
      } catch (e) {
        if (signal.aborted) return;
        const end = over(e);
        if (end) {
          this.on.status(end);
          return;
        }
        this.on.status({ phase: lived ? 'reconnecting' : 'connecting', title: lived ? 'Reconnecting…' : 'Connecting…', text: said(e) });
      }
      await this.rest(pause(failures++));
    }
  }

  /** about asks the server what it knows of the desktop. */
  async about(signal: AbortSignal = this.stop.signal): Promise<About> {
    const about = await get<About>(this.path('about'), signal);
    this.on.about(about);
    return about;
  }

  private path(what: string): string {
    return `/v1/desktops/${encodeURIComponent(this.desktop)}/${what}`;
  }

  private rest(ms: number): Promise<void> {
    return new Promise<void>((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => {
        clearTimeout(timer);
        done();
      };
    }).then(() => {
      this.wake = null;
    });
  }

  /** live shows the picture until its way is lost, and answers why that was. */
  private async live(signal: AbortSignal, about: About): Promise<string> {
    let end: (why: string) => void = () => undefined;
    const lost = new Promise<string>((done) => (end = done));
    const wanted = about.display;
    const listener: Listener = {
      // A slow way gets pictures of half the size: the desktop's own is the one that counts.
      size: (w, h, full) => {
        const half = !full && Math.abs(w * 2 - wanted.width) <= 2 && Math.abs(h * 2 - wanted.height) <= 2;
        this.on.size(half ? wanted.width : w, half ? wanted.height : h);
      },
      shown: () => this.frames++,
      said: (m) => this.on.said(m),
      lost: (why) => end(why),
    };
    const way = await this.dial(signal, listener);
    this.way = way;
    if (signal.aborted) way.close();
    this.on.status({ phase: 'live', title: about.name, text: '' });
    this.drop = end;
    const watch = this.watchdog(way, end);
    try {
      return await lost;
    } finally {
      clearInterval(watch);
      this.way = null;
      this.drop = null;
      way.close();
    }
  }

  /** watchdog ends a way that is silent. */
  private watchdog(way: Way, end: (why: string) => void): ReturnType<typeof setInterval> {
    let bytes = -1;
    let since = performance.now();
    return setInterval(() => {
      void way.figures().then((f) => {
        const now = performance.now();
        if (f.bytes !== bytes) {
          bytes = f.bytes;
          since = now;
        } else if (now - since > silence) {
          end('nothing has come for a while');
        }
      });
    }, 1000);
  }

  private async dial(signal: AbortSignal, listener: Listener): Promise<Way> {
    const rtc = this.only !== 'websocket' && 'RTCPeerConnection' in window && performance.now() - this.rtcFailed > rtcRest;
    if (rtc) {
      try {
        this.on.carrier('webrtc');
        const way = await RtcWay.connect(this.desktop, this.video, listener, within(signal, rtcLimit));
        this.rtcFault = '';
        return way;
      } catch (e) {
        if (signal.aborted) throw e;
        this.rtcFault = said(e);
        // What the server refuses for good is no matter of the way.
        if (e instanceof Problem && e.status !== 501 && e.status !== 406) throw e;
        this.rtcFailed = performance.now();
        if (this.only) throw e;
      }
    }
    this.on.carrier('websocket');
    return SocketWay.connect(this.desktop, this.canvas, listener, () => this.pen.keyframe(), within(signal, socketLimit));
  }

  async figures(): Promise<Figures | null> {
    return (await this.way?.figures()) ?? null;
  }
}

/** within is a signal that ends with another, or after a time. */
function within(signal: AbortSignal, ms: number): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ms)]);
}

const sentence = (s: string): string => (s ? s.charAt(0).toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.') : '');
