/** Pictures of the WebSocket, drawn on a canvas. */
import { tiles, type Said } from './wire';

export type Picture = Extract<Said, { kind: 'picture' }>;

export interface Decoder {
  picture(p: Picture): void;
  /** Pictures have so many pixels from the next one on. */
  size(width: number, height: number): void;
  close(): void;
  /** Pictures that were not drawn. */
  readonly dropped: number;
}

export interface Shown {
  shown(): void;
  /** A picture was lost; the ones after it are of no use before a whole one. */
  lost(): void;
}

/** Pictures that may wait to be decoded. */
const queueMost = 12;

export function decoderOf(codec: string, config: string, canvas: HTMLCanvasElement, to: Shown): Decoder {
  return codec === 'tiles' ? new Tiles(canvas, to) : new Video(config, canvas, to);
}

/** fit gives a canvas a size; a new one empties it. */
function fit(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (width > 0 && height > 0 && (canvas.width !== width || canvas.height !== height)) {
    canvas.width = width;
    canvas.height = height;
  }
}

class Video implements Decoder {
  dropped = 0;

  private decoder: VideoDecoder | null = null;
  private whole = false; // a whole picture has come

  constructor(
    private readonly config: string,
    private readonly canvas: HTMLCanvasElement,
    private readonly to: Shown,
  ) {}

  private begin(): VideoDecoder {
    const context = this.canvas.getContext('2d', { alpha: false, desynchronized: true });
    const d = new VideoDecoder({
      output: (frame) => {
        fit(this.canvas, frame.displayWidth, frame.displayHeight);
        context?.drawImage(frame, 0, 0);
        frame.close();
        this.to.shown();
      },
      error: () => this.fail(),
    });
    d.configure({ codec: this.config, optimizeForLatency: true });
    return d;
  }

  private fail(): void {
    this.decoder = null;
    this.whole = false;
    this.dropped++;
    this.to.lost();
  }

  picture(p: Picture): void {
    if (!p.key && (!this.whole || (this.decoder?.decodeQueueSize ?? 0) > queueMost)) {
      if (this.whole) this.fail();
      else this.dropped++;
      return;
    }
    try {
      this.decoder ??= this.begin();
      this.whole = true;
      this.decoder.decode(new EncodedVideoChunk({ type: p.key ? 'key' : 'delta', timestamp: p.at, data: p.data }));
    } catch {
      this.fail();
    }
  }

  size(): void {
    // A frame says it itself.
  }

  close(): void {
    if (this.decoder && this.decoder.state !== 'closed') this.decoder.close();
    this.decoder = null;
  }
}

class Tiles implements Decoder {
  dropped = 0;

  private last: Promise<void> = Promise.resolve();
  private width = 0;
  private height = 0;
  private closed = false;
  private waiting = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly to: Shown,
  ) {}

  picture(p: Picture): void {
    if (this.waiting > queueMost && !p.key) {
      this.dropped++;
      this.to.lost();
      return;
    }
    const { width, height } = this;
    this.waiting++;
    // All are decoded at once, and drawn in their order.
    const list = tiles(p.data).map(async (t) => ({ ...t, image: await createImageBitmap(new Blob([t.jpeg as BlobPart], { type: 'image/jpeg' })) }));
    this.last = this.last.then(async () => {
      const done = await Promise.allSettled(list);
      this.waiting--;
      if (this.closed) return;
      fit(this.canvas, width, height);
      const context = this.canvas.getContext('2d', { alpha: false });
      for (const t of done) {
        if (t.status === 'rejected') {
          this.dropped++;
          this.to.lost();
          continue;
        }
        context?.drawImage(t.value.image, t.value.x, t.value.y);
        t.value.image.close();
      }
      this.to.shown();
    });
  }

  size(width: number, height: number): void {
    this.width = width;
    this.height = height;
  }

  close(): void {
    this.closed = true;
  }
}
