import { request, Problem } from './api';
import type { Event } from './types';

/** One message of a stream of server-sent events. */
export interface Message {
  id: string;
  type: string;
  data: string;
}

/** Parser takes a stream of server-sent events apart, whatever pieces it comes in. */
export class Parser {
  private rest = '';
  private message: Message = { id: '', type: '', data: '' };
  private started = false;

  constructor(private readonly emit: (m: Message) => void) {}

  push(text: string): void {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? '';
    for (const line of lines) this.line(line);
  }

  private line(line: string): void {
    if (line === '') {
      if (this.started) this.emit({ ...this.message, type: this.message.type || 'message' });
      this.message = { id: this.message.id, type: '', data: '' };
      this.started = false;
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return; // a sign of life
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') {
      this.message.data = this.started ? `${this.message.data}\n${value}` : value;
      this.started = true;
    } else if (field === 'event') {
      this.message.type = value;
    } else if (field === 'id') {
      this.message.id = value;
    }
  }
}

export interface Feed {
  /** An event, in order. After events.lost some are missing: read everything anew. */
  event(e: Event): void;
  /** Whether the stream is up; true each time that it begins. */
  up(connected: boolean): void;
  /** The page may not read events any more; the end. */
  refused(e: Problem): void;
}

/** Silence after which a stream counts as lost, in milliseconds: the server gives a sign of life each 15 s. */
const silence = 40_000;

/**
 * follow reads a stream of events, and begins again after the last one seen when it
 * breaks off, until signal. EventSource would not say why it was refused.
 */
export async function follow(path: string, feed: Feed, signal: AbortSignal): Promise<void> {
  let last = '';
  for (let pause = 250; !signal.aborted; pause = Math.min(pause * 2, 10_000)) {
    try {
      await read(path, last, signal, {
        ...feed,
        up: (c) => feed.up(c),
        event: (e) => {
          if (e.seq > 0) last = String(e.seq);
          pause = 250;
          feed.event(e);
        },
        refused: (p) => feed.refused(p),
      });
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof Problem && (e.status === 401 || e.status === 403 || e.status === 404)) {
        feed.refused(e);
        return;
      }
    }
    feed.up(false);
    await new Promise((done) => setTimeout(done, pause * (0.75 + Math.random() / 2)));
  }
}

async function read(path: string, last: string, signal: AbortSignal, feed: Feed): Promise<void> {
  const mine = new AbortController();
  const stop = () => mine.abort();
  signal.addEventListener('abort', stop);
  let watch = setTimeout(stop, silence);
  try {
    const headers: Record<string, string> = { Accept: 'text/event-stream' };
    if (last) headers['Last-Event-ID'] = last;
    const resp = await request('GET', path, { headers, signal: mine.signal });
    const reader = resp.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (!reader) return;
    feed.up(true);
    const parser = new Parser((m) => {
      if (m.type !== 'error') feed.event(JSON.parse(m.data) as Event);
    });
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(stop, silence);
      parser.push(value);
    }
  } finally {
    clearTimeout(watch);
    signal.removeEventListener('abort', stop);
  }
}
