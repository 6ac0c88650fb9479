/** Who has control of the desktop, and this page's part in it. */
import { get, post, Problem, request } from '../common/api';
import type { Control } from '../common/types';

/** How often the holder says that he is there, in milliseconds: the lease ends after 30 s of silence. */
const beat = 10_000;

export class Lease {
  now: Control | null = null;

  private timer: ReturnType<typeof setInterval> | undefined;
  private wanted = false;

  constructor(
    private readonly desktop: string,
    /** Hears of every change; lost: this page had control until now. */
    private readonly changed: (now: Control, lost: boolean) => void,
  ) {}

  /** Whether this page has given control back by itself. */
  get left(): boolean {
    return !this.wanted;
  }

  get mine(): boolean {
    return this.now?.mine === true;
  }

  private get path(): string {
    return `/v1/desktops/${encodeURIComponent(this.desktop)}/control`;
  }

  async refresh(): Promise<void> {
    this.set(await get<Control>(this.path));
  }

  /** Has it at once, from an agent too where the policy lets a person. */
  take(): Promise<void> {
    return this.change({ action: 'take', as: 'person' });
  }

  /** Has it when nobody does; otherwise the holder hears of it. */
  ask(): Promise<void> {
    return this.change({ action: 'request', as: 'person' });
  }

  give(to?: string): Promise<void> {
    return this.change({ action: 'give', epoch: this.now?.epoch, ...(to ? { to } : {}) });
  }

  async release(): Promise<void> {
    this.wanted = false;
    await this.change({ action: 'release', epoch: this.now?.epoch });
  }

  /** back takes control up again after a reconnection, if this page had it and nobody has now. */
  async back(): Promise<void> {
    const had = this.wanted;
    await this.refresh();
    if (had && this.now && !this.now.held) await this.ask();
  }

  private async change(body: Record<string, unknown>): Promise<void> {
    try {
      this.set(await post<Control>(this.path, body));
    } catch (e) {
      if (e instanceof Problem && e.code === 'control_held') await this.refresh();
      throw e;
    }
  }

  private set(now: Control): void {
    const had = this.mine;
    this.now = now;
    if (now.mine) this.wanted = true;
    clearInterval(this.timer);
    if (now.mine) this.timer = setInterval(() => void this.renew(), beat);
    this.changed(now, had && !now.mine);
    if (now.held && !now.mine) this.wanted = false;
  }

  private async renew(): Promise<void> {
    try {
      this.set(await post<Control>(this.path, { action: 'renew', epoch: this.now?.epoch }));
    } catch (e) {
      if (e instanceof Problem && e.status !== 0) await this.refresh().catch(() => undefined); // the next beat tries again
    }
  }

  /** leave gives control back: the page goes. */
  leave(): void {
    if (!this.mine) return;
    void request('POST', this.path, { body: { action: 'release', epoch: this.now?.epoch }, keepalive: true }).catch(() => undefined);
    this.close();
  }

  close(): void {
    clearInterval(this.timer);
  }
}

/** who names a holder for people. */
export function who(holder: string | undefined, kind: 'agent' | 'person' | undefined): string {
  const person = kind === 'person';
  if (!holder || /^viewer-/.test(holder) || /^[a-z][a-z2-7]{11}$/.test(holder)) return person ? 'Another person' : 'An agent';
  return person ? holder : `Agent ${holder}`;
}
