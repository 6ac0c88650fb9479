// @ts-check
// Calls of the host's HTTP API, and its WebSockets.
import { createRequire } from "node:module";

/** What the host said of a call that failed. */
export class HostError extends Error {
  /**
   * @param {number} status of HTTP; 0 on a WebSocket
   * @param {{code?: string, message?: string, retryable?: boolean}} said
   * @param {number} [generation] the newest one, of stale_generation
   */
  constructor(status, said, generation) {
    super(said.message ?? `the host answered ${status}`);
    this.name = "HostError";
    this.status = status;
    this.code = said.code ?? "unknown";
    this.retryable = said.retryable ?? status >= 500;
    this.generation = generation;
  }
}

/** @typedef {{body?: unknown, bytes?: Uint8Array, generation?: number, key?: string, signal?: AbortSignal}} CallOptions */

/** One host, by the key of a driver. The key never enters a machine. */
export class Host {
  /** @type {string} */ #base;
  /** @type {string} */ #key;

  /** @param {{baseUrl: string, apiKey: string}} options */
  constructor({ baseUrl, apiKey }) {
    if (!baseUrl || !apiKey) throw new Error("desktop-vm needs baseUrl and apiKey");
    this.#base = baseUrl.replace(/\/+$/, "");
    this.#key = apiKey;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {CallOptions} [options]
   * @returns {Promise<Response>}
   */
  async #send(method, path, { body, bytes, generation, key, signal } = {}) {
    /** @type {Record<string, string>} */
    const headers = { Authorization: `Bearer ${this.#key}` };
    if (generation !== undefined) headers["X-Fence-Generation"] = String(generation);
    if (key !== undefined) headers["Idempotency-Key"] = key;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (bytes !== undefined) headers["Content-Type"] = "application/octet-stream";
    const response = await fetch(this.#base + path, {
      method, headers, signal: signal ?? null,
      body: bytes !== undefined ? /** @type {BodyInit} */ (bytes) : body !== undefined ? JSON.stringify(body) : null,
    });
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    throw new HostError(response.status, problem.error ?? {}, problem.generation);
  }

  /**
   * A call whose answer is JSON, or nothing.
   * @param {string} method
   * @param {string} path
   * @param {CallOptions} [options]
   * @returns {Promise<any>}
   */
  async call(method, path, options) {
    const response = await this.#send(method, path, options);
    return response.status === 204 ? undefined : response.json();
  }

  /**
   * A call whose answer is bytes.
   * @param {string} path
   * @param {CallOptions} [options]
   */
  async bytes(path, options) {
    return new Uint8Array(await (await this.#send("GET", path, options)).arrayBuffer());
  }

  /**
   * An open WebSocket.
   * @param {string} path
   * @param {string} protocol
   * @returns {Promise<WebSocket>}
   */
  socket(path, protocol) {
    /** @type {typeof WebSocket} */
    const Socket = globalThis.WebSocket ?? createRequire(import.meta.url)("ws");
    // Standard WebSockets carry no headers: the key is offered as a protocol.
    const ws = new Socket(this.#base.replace(/^http/, "ws") + path, [protocol, `deskfork-token.${this.#key}`]);
    ws.binaryType = "arraybuffer";
    return new Promise((resolve, reject) => {
      ws.onopen = () => resolve(ws);
      ws.onerror = () => reject(new HostError(0, { code: "unreachable", message: "the WebSocket was refused", retryable: true }));
    });
  }
}

/**
 * Whether an error says that something is gone.
 * @param {unknown} error
 */
export const isGone = (error) => error instanceof HostError && error.status === 404;
