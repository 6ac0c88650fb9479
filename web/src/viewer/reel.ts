/** The recordings of a desktop, and which of them is played. */
import { get, post, remove } from '../common/api';

export interface Chapter {
  at_ms: number;
  title: string;
}

export interface Recording {
  id: string;
  state: 'recording' | 'finished';
  begun: string;
  duration_ms: number;
  bytes: number;
  reason?: string;
  chapters: Chapter[];
}

/** chapterAt is the chapter that a time is in, as its place in the list; -1: before the first. */
export const chapterAt = (list: Chapter[], ms: number): number => list.findLastIndex((c) => c.at_ms <= ms);

/** moment is a time in a recording: 1:02:03 or 2:03. */
export function moment(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n: number) => String(n).padStart(2, '0');
  const h = Math.floor(s / 3600);
  const m = Math.floor(s / 60) % 60;
  return h > 0 ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

export class Reel {
  list: Recording[] = [];
  playing: Recording | null = null;
  private readonly base: string;

  constructor(
    desktop: string,
    private readonly changed: () => void,
  ) {
    this.base = `/v1/desktops/${encodeURIComponent(desktop)}/recordings`;
  }

  get running(): boolean {
    return this.list[0]?.state === 'recording';
  }

  url(r: Recording): string {
    return `${this.base}/${encodeURIComponent(r.id)}`;
  }

  async refresh(): Promise<void> {
    this.list = (await get<{ recordings: Recording[] }>(this.base)).recordings;
    if (this.playing && !this.list.some((r) => r.id === this.playing?.id)) this.playing = null;
    this.changed();
  }

  /** toggle begins to record, or ends it. */
  async toggle(): Promise<void> {
    await post(this.running ? `${this.base}/stop` : this.base);
    await this.refresh();
  }

  async remove(r: Recording): Promise<void> {
    await remove(this.url(r));
    await this.refresh();
  }

  play(r: Recording | null): void {
    this.playing = r;
    this.changed();
  }
}
