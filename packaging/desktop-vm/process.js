// @ts-check
// One process in a machine, over connections that may break: deskfork-process-v1.
import { randomUUID } from "node:crypto";
import { HostError } from "./http.js";

const protocol = "deskfork-process-v1";
const header = 9;
const part = 32 * 1024;

/** @typedef {{command: string, args?: string[], env?: Record<string, string>, cwd?: string}} ProcessSpec */
/** @typedef {{code: number | null, signal: string | null}} Exit */

/** A promise and its ends. */
function deferred() {
  /** @type {(value?: any) => void} */ let resolve = () => {};
  /** @type {(reason: unknown) => void} */ let reject = () => {};
  const promise = new Promise((yes, no) => { resolve = yes; reject = no; });
  promise.catch(() => {}); // whoever waits for it hears of it
  return { promise, resolve, reject };
}

/** One output: what has come, and what its reader has taken of it. */
class Output {
  /** @type {Uint8Array[]} */ #queue = [];
  #over = false;
  /** @type {unknown} */ #fault;
  #deaf = false;
  #wake = deferred();
  received = 0;
  taken = 0;

  /** @param {() => void} confirm is called when more was taken */
  constructor(confirm) {
    /** @type {ReadableStream<Uint8Array>} */
    this.stream = new ReadableStream({
      pull: async (controller) => {
        while (this.#queue.length === 0 && !this.#over) await this.#wake.promise;
        const chunk = this.#queue.shift();
        if (chunk !== undefined) {
          controller.enqueue(chunk);
          this.taken += chunk.byteLength;
          confirm();
        } else if (this.#fault !== undefined) controller.error(this.#fault);
        else controller.close();
      },
      cancel: () => {
        this.#deaf = true; // the process goes on all the same
        this.#queue = [];
        this.taken = this.received;
        confirm();
      },
    }, { highWaterMark: 0 });
    this.confirm = confirm;
  }

  /** @param {number} seq @param {Uint8Array} data */
  push(seq, data) {
    const fresh = data.subarray(Math.max(0, this.received - seq));
    if (seq > this.received || fresh.byteLength === 0) return seq <= this.received;
    this.received += fresh.byteLength;
    if (this.#deaf) {
      this.taken = this.received;
      this.confirm();
    } else this.#queue.push(fresh);
    this.#rouse();
    return true;
  }

  /** @param {unknown} [fault] */
  end(fault) {
    this.#over = true;
    this.#fault = fault;
    this.#rouse();
  }

  #rouse() {
    this.#wake.resolve();
    this.#wake = deferred();
  }
}

/** A process. Its connection is made again when it breaks, for as long as it has grace. */
class Duplex {
  id = randomUUID();
  exit = deferred();
  ready = deferred();
  started = false;
  over = false;
  /** @type {WebSocket | undefined} */ ws;
  window = 0;
  // Standard input: offsets up to which it was written, sent and confirmed.
  written = 0;
  sent = 0;
  confirmed = 0;
  /** @type {Uint8Array[]} from confirmed on */ unconfirmed = [];
  /** @type {string | undefined} sent again on every connection */ signal;
  ended = false;
  stopped = false;
  moved = deferred();
  out = new Output(() => this.acknowledge(1, this.out));
  err = new Output(() => this.acknowledge(2, this.err));

  /**
   * @param {import("./http.js").Host} host
   * @param {string} path
   * @param {ProcessSpec} spec
   * @param {number} graceMs
   */
  constructor(host, path, spec, graceMs) {
    this.host = host;
    this.path = path;
    this.spec = spec;
    this.graceMs = graceMs;
  }

  /** @param {object} message */
  say(message) {
    if (this.ws?.readyState === 1) this.ws.send(JSON.stringify(message));
  }

  /** @param {number} channel @param {Output} output */
  acknowledge(channel, output) {
    this.say({ type: "ack", channel, seq: output.taken });
  }

  async connect() {
    const ws = await this.host.socket(this.path, protocol);
    ws.onmessage = (event) => { if (this.ws === ws) this.hear(event.data); };
    ws.onclose = ws.onerror = () => { if (this.ws === ws) this.lose(); };
    this.ws = ws;
    this.say(this.started
      ? { type: "attach", id: this.id, stdout: this.out.received, stderr: this.err.received }
      : { type: "spawn", id: this.id, tty: false, graceMs: this.graceMs, ...this.spec });
  }

  /** The connection broke: another is made, while the process waits for it. */
  async lose() {
    this.ws = undefined;
    const until = Date.now() + this.graceMs;
    for (let wait = 50; !this.over; wait = Math.min(2 * wait, 2000)) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      try {
        return await this.connect();
      } catch (error) {
        if (Date.now() > until) return this.fail(error);
      }
    }
  }

  /** @param {string | ArrayBuffer} data */
  hear(data) {
    if (typeof data !== "string") {
      const view = new DataView(data);
      const output = view.getUint8(0) === 1 ? this.out : this.err;
      if (!output.push(Number(view.getBigUint64(1)), new Uint8Array(data, header))) this.fail(new Error("output is missing"));
      return;
    }
    const m = JSON.parse(data);
    switch (m.type) {
      case "started":
        if ((m.gone ?? 0) > 0) return this.fail(new Error(`${m.gone} bytes of output are gone`));
        this.window = m.window;
        this.started = true;
        this.confirm(m.stdin ?? 0);
        this.sent = this.confirmed; // what was on its way goes again
        this.acknowledge(1, this.out);
        this.acknowledge(2, this.err);
        this.ready.resolve();
        if (this.signal !== undefined) this.say({ type: "kill", signal: this.signal });
        this.flush();
        break;
      case "ack":
        this.confirm(m.seq ?? 0);
        this.flush();
        break;
      case "stdin_close":
        this.stopped = true;
        this.unconfirmed = [];
        this.stir();
        break;
      case "exit":
        this.finish();
        this.exit.resolve({ code: m.code ?? null, signal: m.signal ?? null });
        break;
      case "error": {
        const error = new HostError(0, m.error ?? {});
        if (!error.retryable) this.fail(error);
      }
    }
  }

  /** @param {unknown} [fault] */
  finish(fault) {
    this.over = true;
    this.out.end(fault);
    this.err.end(fault);
    this.stir();
    const ws = this.ws;
    this.ws = undefined;
    ws?.close(1000);
  }

  /** @param {unknown} error */
  fail(error) {
    if (this.over) return;
    this.finish(error);
    this.ready.reject(error);
    this.exit.reject(error);
  }

  stir() {
    this.moved.resolve();
    this.moved = deferred();
  }

  /** @param {number} seq all input below it is the machine's */
  confirm(seq) {
    while (this.confirmed < seq && this.unconfirmed.length > 0) {
      const first = this.unconfirmed[0];
      const n = Math.min(first.byteLength, seq - this.confirmed);
      this.confirmed += n;
      if (n === first.byteLength) this.unconfirmed.shift();
      else this.unconfirmed[0] = first.subarray(n);
    }
    this.confirmed = Math.max(this.confirmed, seq);
    this.sent = Math.max(this.sent, this.confirmed);
    this.stir();
  }

  /** Sends what may be sent. */
  flush() {
    if (!this.started || this.stopped || this.ws?.readyState !== 1) return;
    let at = this.confirmed;
    for (const chunk of this.unconfirmed) {
      for (let from = Math.max(0, this.sent - at); from < chunk.byteLength;) {
        const n = Math.min(part, chunk.byteLength - from, this.confirmed + this.window - this.sent);
        if (n <= 0) return;
        const frame = new Uint8Array(header + n);
        new DataView(frame.buffer).setBigUint64(1, BigInt(this.sent));
        frame.set(chunk.subarray(from, from + n), header);
        this.ws.send(frame);
        this.sent += n;
        from += n;
      }
      at += chunk.byteLength;
    }
    if (this.ended && this.sent === this.written) this.say({ type: "stdin_close" });
  }

  /** @param {Uint8Array} chunk @returns {Promise<void>} when it was sent */
  async write(chunk) {
    if (this.over || this.stopped) throw new Error("the process takes no input any more");
    const end = this.written += chunk.byteLength;
    this.unconfirmed.push(chunk.slice());
    this.flush();
    while (this.sent < end) {
      await this.moved.promise;
      if (this.over || this.stopped) throw new Error("the process takes no input any more");
    }
  }

  end() {
    this.ended = true;
    this.flush();
  }
}

/**
 * Starts a process and gives its streams.
 * @param {import("./http.js").Host} host
 * @param {string} path of the machine's processes
 * @param {ProcessSpec} spec
 * @param {number} [graceMs] how long it lives without a connection
 */
export async function spawnProcess(host, path, spec, graceMs = 60_000) {
  const p = new Duplex(host, path, spec, graceMs);
  await p.connect();
  await p.ready.promise;
  return {
    stdin: new WritableStream({ write: (/** @type {Uint8Array} */ chunk) => p.write(chunk), close: () => p.end(), abort: () => p.end() }),
    stdout: p.out.stream,
    stderr: p.err.stream,
    /** @param {"SIGTERM" | "SIGKILL"} [signal] */
    kill: async (signal = "SIGTERM") => {
      p.signal = signal;
      p.say({ type: "kill", signal });
    },
    exited: /** @type {Promise<Exit>} */ (p.exit.promise),
    /** Breaks the connection, for tests. */
    drop: () => /** @type {any} */ (p.ws)?.terminate?.(),
  };
}
