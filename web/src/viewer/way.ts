/** A way that a desktop's picture comes by, and input goes back. */
import type { Said } from './wire';

export type Carrier = 'webrtc' | 'websocket';

/** What people may want to know of a way, as it is now. */
export interface Figures {
  /** In a word: UDP, TCP, relayed, WebSocket. */
  via: string;
  codec: string;
  width: number;
  height: number;
  /** Frames that were shown in all. */
  frames: number;
  /** Bytes that came in all. */
  bytes: number;
  /** Round trip in milliseconds; null: not measured. */
  roundTrip: number | null;
  /** Milliseconds that the last picture took to encode; null: not told. */
  encode: number | null;
  dropped: number;
}

export interface Way {
  readonly carrier: Carrier;
  /** Sends input. Lossy is for moves: the next one makes up for it. */
  send(message: ArrayBuffer, lossy: boolean): void;
  figures(): Promise<Figures>;
  /** soon: the page is about to go, and waits for nothing. */
  close(soon?: boolean): void;
}

export interface Listener {
  /** Pictures have so many pixels from now on; full: those are all that the screen has. */
  size(width: number, height: number, full: boolean): void;
  /** A picture was shown. */
  shown(): void;
  said(m: Said): void;
  /** The way has ended by itself. */
  lost(why: string): void;
}
