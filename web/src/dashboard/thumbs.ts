import { request, Problem } from '../common/api';

/** Width of thumbnails in pixels. */
const width = 480;
/** Requests at once: a browser has six connections to a server, and needs some for what people do. */
const lanes = 3;
/** Requests in a second, over all cards. */
const rate = 12;
const quickest = 1_000;
const slowest = 5_000;

interface Watched {
  img: HTMLImageElement;
  /** Hears that there is a picture. */
  shown: () => void;
  visible: boolean;
  live: boolean;
  etag: string;
  url: string;
  due: number;
  pause: number;
  busy: boolean;
}

/**
 * Thumbs keeps the pictures of the cards that can be seen: each is asked for again
 * and again, seldom while it does not change, and comes over the network when it has.
 * It is a glance: it keeps no desktop from its rest.
 */
export class Thumbs {
  private readonly by = new Map<string, Watched>();
  private readonly ids = new WeakMap<Element, string>();
  private flying = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly eyes = new IntersectionObserver(
    (list) => {
      for (const e of list) {
        const w = this.by.get(this.ids.get(e.target) ?? '');
        if (w) w.visible = e.isIntersecting;
      }
      this.plan();
    },
    { rootMargin: '120px' },
  );

  constructor() {
    document.addEventListener('visibilitychange', () => this.plan());
  }

  /** watch keeps a desktop's picture in img until the returned function is called. */
  watch(id: string, img: HTMLImageElement, shown: () => void): () => void {
    const w: Watched = { img, shown, visible: false, live: false, etag: '', url: '', due: 0, pause: quickest, busy: false };
    this.by.set(id, w);
    this.ids.set(img.parentElement ?? img, id);
    this.eyes.observe(img.parentElement ?? img);
    return () => {
      this.eyes.unobserve(img.parentElement ?? img);
      if (w.url) URL.revokeObjectURL(w.url);
      if (this.by.get(id) === w) this.by.delete(id);
    };
  }

  /** live says whether a desktop has a screen now. */
  live(id: string, has: boolean): void {
    const w = this.by.get(id);
    if (!w || w.live === has) return;
    w.live = has;
    w.due = 0;
    this.plan();
  }

  private plan(): void {
    clearTimeout(this.timer);
    if (document.hidden || this.flying >= lanes) return;
    const now = performance.now();
    let next: [string, Watched] | undefined;
    let seen = 0;
    for (const e of this.by) {
      if (!e[1].visible || !e[1].live) continue;
      seen++;
      if (!e[1].busy && (!next || e[1].due < next[1].due)) next = e;
    }
    if (!next) return;
    const wait = next[1].due - now;
    if (wait > 0) {
      this.timer = setTimeout(() => this.plan(), wait);
      return;
    }
    const [id, w] = next;
    w.busy = true;
    this.flying++;
    void this.fetch(id, w).finally(() => {
      w.busy = false;
      w.due = performance.now() + Math.max(w.pause, (seen * 1_000) / rate);
      this.flying--;
      this.plan();
    });
    this.plan();
  }

  private async fetch(id: string, w: Watched): Promise<void> {
    try {
      const resp = await request('GET', `/v1/desktops/${id}/screenshot?peek=true&format=jpeg&quality=75&max_width=${width}`, {
        headers: w.etag ? { 'If-None-Match': w.etag } : {},
      });
      if (resp.status === 304) {
        w.pause = Math.min(w.pause * 1.5, slowest);
        return;
      }
      const url = URL.createObjectURL(await resp.blob());
      if (this.by.get(id) !== w) {
        URL.revokeObjectURL(url);
        return;
      }
      const old = w.url;
      w.url = url;
      w.etag = resp.headers.get('ETag') ?? '';
      w.pause = quickest;
      w.img.src = url;
      if (old) URL.revokeObjectURL(old);
      else w.shown();
    } catch (e) {
      // It has no screen yet, or none any more; it may have one again.
      w.pause = e instanceof Problem && e.status === 0 ? slowest : Math.min(w.pause * 2, slowest);
    }
  }
}
