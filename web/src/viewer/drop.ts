/** Files from the person's machine, sent into the desktop's folder for them. */

export interface Upload {
  id: number;
  name: string;
  /** 0 to 1. */
  done: number;
  state: 'sending' | 'sent' | 'failed';
  fault: string;
}

/** upload sends a file; fetch would not tell how far it is. */
export function upload(desktop: string, file: File, progress: (done: number) => void, signal?: AbortSignal): Promise<{ path: string }> {
  return new Promise((done, fail) => {
    const x = new XMLHttpRequest();
    x.open('PUT', `/v1/desktops/${encodeURIComponent(desktop)}/dropped/${encodeURIComponent(file.name)}`);
    x.setRequestHeader('Content-Type', 'application/octet-stream');
    x.responseType = 'json';
    x.upload.onprogress = (e) => e.lengthComputable && progress(e.loaded / e.total);
    x.onload = () => {
      const body = (x.response ?? {}) as { path?: string; detail?: string; code?: string };
      if (x.status < 300) done({ path: body.path ?? '' });
      else fail(new Error(x.status === 409 ? 'A file of this name is there already.' : (body.detail ?? `The server answered with status ${x.status}.`)));
    };
    x.onerror = () => fail(new Error('The connection broke off.'));
    signal?.addEventListener('abort', () => x.abort());
    x.send(file);
  });
}

let last = 0;

/** Uploads sends files one after another. */
export class Uploads {
  list: Upload[] = [];

  private queue: Promise<void> = Promise.resolve();

  constructor(
    private readonly desktop: string,
    private readonly changed: () => void,
  ) {}

  add(files: Iterable<File>): void {
    for (const file of files) {
      const u: Upload = { id: ++last, name: file.name, done: 0, state: 'sending', fault: '' };
      this.list = [...this.list, u];
      this.queue = this.queue.then(() => this.send(u, file));
    }
    this.changed();
  }

  private async send(u: Upload, file: File): Promise<void> {
    try {
      await upload(this.desktop, file, (done) => this.set(u, { done }));
      this.set(u, { done: 1, state: 'sent' });
      setTimeout(() => this.remove(u.id), 8000);
    } catch (e) {
      this.set(u, { state: 'failed', fault: (e as Error).message });
    }
  }

  remove(id: number): void {
    this.list = this.list.filter((u) => u.id !== id);
    this.changed();
  }

  private set(u: Upload, change: Partial<Upload>): void {
    Object.assign(u, change);
    this.list = [...this.list];
    this.changed();
  }
}
