/** Watching over one WebSocket: the same pictures, for who finds no way by WebRTC. */
import { Problem } from '../common/api';
import { decoderOf, type Decoder } from './decode';
import type { Figures, Listener, Way } from './way';
import { read } from './wire';

const subprotocol = 'deskfork-stream-v1';

/** What the server says before pictures. */
interface Told {
  kind: 'begin' | 'error';
  codec?: string;
  config?: string;
  level?: string;
  width?: number;
  height?: number;
  error?: { status?: number; code?: string; detail?: string; hint?: string };
}

/** codecs lists what this browser decodes, the best first. */
export async function codecs(): Promise<string[]> {
  const out: string[] = [];
  if (isSecureContext && 'VideoDecoder' in window) {
    for (const [name, codec] of [['vp9', 'vp09.00.40.08'], ['vp8', 'vp8']] as const) {
      const ok = await VideoDecoder.isConfigSupported({ codec }).then((r) => r.supported === true, () => false);
      if (ok) out.push(name);
    }
  }
  out.push('tiles');
  return out;
}

/** Silence after which the connection counts as lost, in milliseconds: the server shows a still screen once a second. */
const silence = 6000;

export class SocketWay implements Way {
  readonly carrier = 'websocket';

  private readonly ws: WebSocket;
  private decoder: Decoder | null = null;
  private codec = '';
  private frames = 0;
  private bytes = 0;
  private encode: number | null = null;
  private closed = false;
  private watch: ReturnType<typeof setTimeout> | undefined;
  private refused: Problem | null = null;
  private onFirst: (() => void) | null = null;

  private constructor(
    desktop: string,
    list: string[],
    private readonly canvas: HTMLCanvasElement,
    private readonly listener: Listener,
    private readonly pleaseKey: () => ArrayBuffer,
  ) {
    const url = new URL(`/v1/desktops/${encodeURIComponent(desktop)}/stream`, location.href);
    url.protocol = url.protocol.replace('http', 'ws');
    url.searchParams.set('codec', list.join(','));
    this.ws = new WebSocket(url, [subprotocol]);
    this.ws.binaryType = 'arraybuffer';
  }

  /** connect resolves with the first picture. only: codecs that failed are left out. */
  static async connect(desktop: string, canvas: HTMLCanvasElement, listener: Listener, pleaseKey: () => ArrayBuffer, signal: AbortSignal, only?: string[]): Promise<SocketWay> {
    const way = new SocketWay(desktop, only ?? (await codecs()), canvas, listener, pleaseKey);
    return new Promise((done, fail) => {
      const over = (why: Error) => {
        way.close();
        fail(why);
      };
      signal.addEventListener('abort', () => over(new Error('no picture came in time')), { once: true });
      way.onFirst = () => done(way);
      way.ws.onmessage = (m) => way.heard(m.data as ArrayBuffer | string);
      way.ws.onclose = () => {
        if (way.onFirst) over(way.refused ?? new Error('the server has closed the connection'));
        else way.end(way.refused?.message ?? 'the server has closed the connection');
      };
    });
  }

  private heard(data: ArrayBuffer | string): void {
    if (this.closed) return;
    clearTimeout(this.watch);
    this.watch = setTimeout(() => this.end('nothing has come for a while'), silence);
    if (typeof data === 'string') {
      this.told(JSON.parse(data) as Told);
      return;
    }
    this.bytes += data.byteLength;
    const m = read(data);
    if (m?.kind !== 'picture') {
      if (m) this.listener.said(m);
      return;
    }
    this.encode = m.took / 1000;
    this.decoder?.picture(m);
  }

  private told(t: Told): void {
    if (t.kind === 'error') {
      this.refused = new Problem(t.error?.status ?? 0, t.error?.code ?? 'unknown', t.error?.detail ?? 'The server has ended the connection.', t.error?.hint);
      return;
    }
    const { codec = 'tiles', config = '', width = 0, height = 0 } = t;
    this.listener.size(width, height, t.level !== 'low');
    if (codec === this.codec && this.decoder) {
      this.decoder.size(width, height);
      return;
    }
    this.codec = codec;
    this.decoder?.close();
    this.decoder = decoderOf(codec, config, this.canvas, {
      shown: () => {
        this.frames++;
        this.listener.shown();
        this.onFirst?.();
        this.onFirst = null;
      },
      lost: () => this.ws.readyState === WebSocket.OPEN && this.ws.send(this.pleaseKey()),
    });
    this.decoder.size(width, height);
  }

  send(message: ArrayBuffer, lossy: boolean): void {
    if (this.ws.readyState !== WebSocket.OPEN || (lossy && this.ws.bufferedAmount > 1000)) return;
    this.ws.send(message);
  }

  figures(): Promise<Figures> {
    return Promise.resolve({
      via: 'WebSocket', codec: this.codec === 'tiles' ? 'JPEG tiles' : this.codec.toUpperCase(), width: this.canvas.width, height: this.canvas.height,
      frames: this.frames, bytes: this.bytes, roundTrip: null, encode: this.encode, dropped: this.decoder?.dropped ?? 0,
    });
  }

  private end(why: string): void {
    if (this.closed) return;
    this.close();
    this.listener.lost(why);
  }

  close(): void {
    this.closed = true;
    this.onFirst = null;
    clearTimeout(this.watch);
    this.decoder?.close();
    this.decoder = null;
    this.ws.onclose = null;
    this.ws.onmessage = null;
    this.ws.close();
  }
}
