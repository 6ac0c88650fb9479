// @ts-check
// One leased machine, with the shape that OpenMA's tools and its generic composition ask for.
import { HostError, isGone } from "./http.js";
import { spawnProcess } from "./process.js";

export const providerName = "desktop-vm";

/** @typedef {{provider: string, checkpointId: string, sourceRuntimeId: string, kind: "memory" | "filesystem", scope: "runtime" | "portable", metadata?: Record<string, unknown>}} Handle */

export class DesktopRuntime {
  /** @type {Record<string, string>} */ #env = {};
  /** @type {string} */ #current;

  /**
   * @param {import("./http.js").Host} host
   * @param {string} id of the incarnation
   * @param {number} generation under which it is held
   */
  constructor(host, id, generation) {
    this.host = host;
    this.id = id;
    this.generation = generation;
    this.#current = id;
  }

  /** @param {string} [rest] */
  #path(rest = "") {
    return `/v1/sandboxes/${encodeURIComponent(this.#current)}${rest}`;
  }

  /** @param {string} path */
  #file(path) {
    return this.#path(`/files?path=${encodeURIComponent(path)}`);
  }

  runtimeHandle() {
    return { provider: providerName, runtimeId: this.id };
  }

  runtimeCapabilities() {
    return { lease: true, suspend: /** @type {const} */ (["memory"]), checkpoint: [] };
  }

  /** @returns {Promise<"running" | "suspended" | "stopped" | "unknown">} */
  async status() {
    try {
      return (await this.host.call("GET", this.#path())).state;
    } catch (error) {
      return isGone(error) ? "stopped" : "unknown";
    }
  }

  /** @param {{ttlMs: number}} input */
  async renewLease({ ttlMs }) {
    await this.host.call("POST", this.#path("/lease"), { body: { ttlMs }, generation: this.generation });
  }

  /**
   * @param {{kind: "memory" | "filesystem"}} input
   * @returns {Promise<Handle>}
   */
  async suspend({ kind }) {
    const handle = await this.host.call("POST", this.#path("/suspend"), { body: { kind }, generation: this.generation });
    this.#current = handle.checkpointId; // what destroy ends from now on
    return handle;
  }

  /** @param {Handle} handle */
  async resume(handle) {
    if (handle.provider !== providerName) throw new Error(`a handle of ${handle.provider} is not ${providerName}'s`);
  }

  async checkpoint() {
    throw new Error("desktop-vm makes no portable checkpoints");
  }

  /**
   * Output and errors, and the exit status when it is not 0.
   * @param {string} command
   * @param {number} [timeoutMs]
   */
  async exec(command, timeoutMs = 120_000) {
    const ran = await this.host.call("POST", this.#path("/exec"), {
      body: { command, timeoutMs, env: this.#env, cwd: "/workspace" }, generation: this.generation,
    });
    const text = [ran.stdoutB64, ran.stderrB64].map((b) => Buffer.from(b, "base64").toString("utf8")).join("").trim();
    return ran.exitCode === 0 ? text : `${text}\n[exit ${ran.exitCode}]`.trimStart();
  }

  /** @param {string} path */
  async readFileBytes(path) {
    return this.host.bytes(this.#file(path), { generation: this.generation });
  }

  /** @param {string} path */
  async readFile(path) {
    return new TextDecoder().decode(await this.readFileBytes(path));
  }

  /**
   * @param {string} path
   * @param {Uint8Array} bytes
   */
  async writeFileBytes(path, bytes) {
    await this.host.call("PUT", this.#file(path), { bytes, generation: this.generation });
    return path;
  }

  /**
   * @param {string} path
   * @param {string} content
   */
  async writeFile(path, content) {
    return this.writeFileBytes(path, new TextEncoder().encode(content));
  }

  /** @param {Record<string, string>} env */
  async setEnvVars(env) {
    this.#env = { ...this.#env, ...env };
  }

  /** @param {import("./process.js").ProcessSpec} spec */
  async spawnDuplexProcess(spec) {
    return spawnProcess(this.host, this.#path("/processes"), { ...spec, env: { ...this.#env, ...spec.env } });
  }

  async destroy() {
    await this.host.call("DELETE", this.#path("?reason=failed"), { generation: this.generation });
  }
}

export { HostError };
