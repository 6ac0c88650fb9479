/** Calls to the server that served the page. The browser's cookie says who calls. */

/** What the server answers in place of what was asked for. */
export class Problem extends Error {
  constructor(
    /** HTTP status; 0: the server was not reached. */
    readonly status: number,
    /** Stable; what callers branch on. */
    readonly code: string,
    message: string,
    readonly hint = '',
    readonly retryable = false,
    /** The members of application/problem+json. */
    readonly body: Record<string, unknown> = {},
  ) {
    super(message);
    this.name = 'Problem';
  }

  /** Whether the link's time is over, or it never was one. */
  get signedOut(): boolean {
    return this.status === 401;
  }
}

export interface Options {
  /** Sent as JSON, unless it is a Blob. */
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** The page may be gone before the answer. */
  keepalive?: boolean;
}

/** request sends a request and answers with the response, whose status is below 400. */
export async function request(method: string, path: string, opt: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...opt.headers };
  let body: BodyInit | null = null;
  if (opt.body instanceof Blob) {
    body = opt.body;
  } else if (opt.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(opt.body);
  }
  let resp: Response;
  try {
    resp = await fetch(path, { method, headers, body, credentials: 'same-origin', redirect: 'error', signal: opt.signal ?? null, keepalive: opt.keepalive === true });
  } catch (e) {
    if (opt.signal?.aborted) throw e;
    throw new Problem(0, 'unreachable', 'The server does not answer.', 'It may be restarting. The page tries again by itself.', true);
  }
  if (resp.ok || resp.status === 304) return resp;
  throw await problemOf(resp);
}

async function problemOf(resp: Response): Promise<Problem> {
  let said: Record<string, unknown> = {};
  try {
    said = (await resp.json()) as Record<string, unknown>;
  } catch {
    // A proxy's own page: the status is all there is.
  }
  const text = (key: string) => (typeof said[key] === 'string' ? (said[key] as string) : '');
  return new Problem(
    resp.status,
    text('code') || 'unknown',
    text('detail') || text('title') || `The server answered with status ${resp.status}.`,
    text('hint'),
    said['retryable'] === true,
    said,
  );
}

/** call sends a request and answers with its JSON. */
export async function call<T>(method: string, path: string, opt: Options = {}): Promise<T> {
  const resp = await request(method, path, opt);
  return (resp.status === 204 ? undefined : await resp.json()) as T;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => call<T>('GET', path, signal ? { signal } : {});
export const post = <T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> => call<T>('POST', path, { body, headers });
export const remove = (path: string): Promise<void> => call<void>('DELETE', path);

/** once is a key under which a call that is repeated is done once. */
export const once = (): Record<string, string> => ({ 'Idempotency-Key': crypto.getRandomValues(new Uint32Array(4)).join('-') });

/** said is what a person is told of an error. */
export function said(e: unknown): string {
  if (e instanceof Problem) return e.hint ? `${e.message} ${sentence(e.hint)}` : e.message;
  return e instanceof Error ? e.message : String(e);
}

const sentence = (s: string) => s.charAt(0).toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.');
