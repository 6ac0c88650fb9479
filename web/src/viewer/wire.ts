/**
 * Messages between a viewer and the server, binary and big endian, as package rtc
 * of the server describes them. Over the WebSocket come pictures besides.
 */

export interface Point {
  x: number;
  y: number;
}

export type Said =
  | { kind: 'picture'; key: boolean; level: number; at: number; took: number; data: Uint8Array }
  | { kind: 'look'; hot: Point; png: Uint8Array | null }
  | { kind: 'place'; at: Point }
  | { kind: 'refused'; seq: number; code: string; text: string }
  | { kind: 'clip'; text: string };

const kindPicture = 1;
const kindLook = 16;
const kindPlace = 17;
const kindRefused = 18;
const kindClip = 19;

/** The bytes before a picture. */
const pictureHead = 12;

/** read takes a message of the server apart; null: it is none that this page knows. */
export function read(raw: ArrayBuffer): Said | null {
  if (raw.byteLength < 1) return null;
  const v = new DataView(raw);
  const rest = (from: number) => new Uint8Array(raw, from);
  switch (v.getUint8(0)) {
    case kindPicture:
      if (raw.byteLength < pictureHead) return null;
      return { kind: 'picture', key: (v.getUint8(1) & 1) !== 0, level: v.getUint8(3), at: v.getUint32(4), took: v.getUint32(8), data: rest(pictureHead) };
    case kindLook:
      if (raw.byteLength < 5) return null;
      return { kind: 'look', hot: { x: v.getUint16(1), y: v.getUint16(3) }, png: raw.byteLength > 5 ? rest(5) : null };
    case kindPlace:
      if (raw.byteLength < 5) return null;
      return { kind: 'place', at: { x: v.getUint16(1), y: v.getUint16(3) } };
    case kindRefused: {
      if (raw.byteLength < 5) return null;
      const said = new TextDecoder().decode(rest(5));
      const [code = '', text = ''] = said.split('\0', 2);
      return { kind: 'refused', seq: v.getUint32(1), code, text };
    }
    case kindClip:
      return { kind: 'clip', text: new TextDecoder().decode(rest(1)) };
  }
  return null;
}

export interface Tile extends Point {
  jpeg: Uint8Array;
}

/** tiles takes a picture of tiles apart. */
export function tiles(data: Uint8Array): Tile[] {
  const v = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const out: Tile[] = [];
  for (let at = 0; at + 8 <= data.byteLength; ) {
    const size = v.getUint32(at + 4);
    const jpeg = data.subarray(at + 8, at + 8 + size);
    if (jpeg.byteLength < size) break;
    out.push({ x: v.getUint16(at), y: v.getUint16(at + 2), jpeg });
    at += 8 + size;
  }
  return out;
}

/** Buttons of the pointer, as the server numbers them. */
export const button = { left: 1, middle: 2, right: 4, back: 128, forward: 256 } as const;

/** A key by its meaning (X11 keysym) and its place (PC scancode; 0: unknown). */
export interface Key {
  sym: number;
  code: number;
}

/** The most bytes of text to be typed that go in one message, and of a clipboard in all. */
const textMost = 4096;
export const clipMost = 60_000;

/** Pen writes messages of a viewer; each has a number that grows. */
export class Pen {
  private seq = 0;

  private begin(kind: number, size: number): DataView {
    const v = new DataView(new ArrayBuffer(size));
    this.seq = (this.seq + 1) >>> 0;
    v.setUint8(0, kind);
    v.setUint32(1, this.seq);
    return v;
  }

  private at(kind: number, size: number, p: Point): DataView {
    const v = this.begin(kind, size);
    v.setUint16(5, clamp(p.x, 0, 0xffff));
    v.setUint16(7, clamp(p.y, 0, 0xffff));
    return v;
  }

  move(p: Point): ArrayBuffer {
    return bytes(this.at(1, 9, p));
  }

  buttons(p: Point, held: number): ArrayBuffer {
    const v = this.at(2, 11, p);
    v.setUint16(9, held);
    return bytes(v);
  }

  key(k: Key, down: boolean): ArrayBuffer {
    const v = this.begin(3, 14);
    v.setUint32(5, k.sym);
    v.setUint32(9, k.code);
    v.setUint8(13, down ? 1 : 0);
    return bytes(v);
  }

  /** by is in 1/120 of a notch; right and down are positive. */
  scroll(p: Point, by: Point): ArrayBuffer {
    const v = this.at(4, 13, p);
    v.setInt16(9, clamp(by.x, -0x8000, 0x7fff));
    v.setInt16(11, clamp(by.y, -0x8000, 0x7fff));
    return bytes(v);
  }

  /** A long text is several messages; no character is split. */
  text(text: string): ArrayBuffer[] {
    const out: ArrayBuffer[] = [];
    for (const part of parts(text, textMost)) out.push(this.long(5, part));
    return out;
  }

  private long(kind: number, text: Uint8Array): ArrayBuffer {
    const v = this.begin(kind, 5 + text.byteLength);
    new Uint8Array(v.buffer, 5).set(text);
    return bytes(v);
  }

  /** clip is for the desktop's clipboard; null: it is too long. */
  clip(text: string): ArrayBuffer | null {
    const all = new TextEncoder().encode(text);
    return all.byteLength > clipMost ? null : this.long(9, all);
  }

  release(): ArrayBuffer {
    return bytes(this.begin(6, 5));
  }

  /** The picture was lost; a whole one, please. */
  keyframe(): ArrayBuffer {
    return bytes(this.begin(7, 5));
  }
}

const bytes = (v: DataView): ArrayBuffer => v.buffer as ArrayBuffer;

const clamp = (n: number, low: number, high: number): number => Math.min(high, Math.max(low, Math.round(n)));

/** parts splits a text into pieces of at most so many bytes of UTF-8. */
export function parts(text: string, most: number): Uint8Array[] {
  const all = new TextEncoder().encode(text);
  const out: Uint8Array[] = [];
  for (let from = 0; from < all.byteLength; ) {
    let to = Math.min(all.byteLength, from + most);
    while (to < all.byteLength && ((all[to] ?? 0) & 0xc0) === 0x80) to--;
    out.push(all.subarray(from, to));
    from = to;
  }
  return out;
}
