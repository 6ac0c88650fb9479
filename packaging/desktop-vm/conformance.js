// @ts-check
// Holds a host to what the driver needs of it: node conformance.js, with DESKTOP_VM_URL, _KEY and _IMAGE.
// Each test has a session of its own. It ends with status 1 when one fails.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createManagedRuntimeProviderDriver, createProvider, DesktopRuntime, HostError } from "./index.js";

const { DESKTOP_VM_URL: baseUrl = "", DESKTOP_VM_KEY: apiKey = "", DESKTOP_VM_IMAGE: image = "", DESKTOP_VM_DIR: dir = "/tmp" } = process.env;
const options = { baseUrl, apiKey, image, leaseTtlMs: 60_000 };
const provider = createProvider(options);
const utf8 = new TextEncoder();

/** @param {number} generation */
const acquisition = (generation, sessionId = randomUUID()) => ({
  scope: { workspaceId: "ws", environmentId: "env", sessionId, workId: "w" }, fence: { generation, ownerId: "conformance" },
});

/** @param {ReadableStream<Uint8Array>} stream */
async function all(stream) {
  const parts = [];
  for await (const part of /** @type {any} */ (stream)) parts.push(part);
  return Buffer.concat(parts);
}

/** @param {string} code */
const refused = (code) => (/** @type {unknown} */ error) => error instanceof HostError && error.code === code;

/** @type {Record<string, () => Promise<void>>} */
const tests = {
  async "the driver composes what the loader asks for"() {
    /** @type {any} */ let asked;
    const driver = createManagedRuntimeProviderDriver({ ...options, compose: (o) => { asked = o; return { sandbox: 1, harness: 2, sessionInputs: 3 }; } });
    assert.equal(driver.descriptor().provider, "desktop-vm");
    assert.deepEqual(driver.descriptor().placements, ["driver_service"]);
    await assert.rejects(driver.create({ placement: "in_process" }));
    const resources = await driver.create({ placement: "driver_service" });
    assert.deepEqual([resources.sandbox, resources.harnessDriver, resources.sessionInputs], [1, 2, 3]);
    assert.deepEqual(driver.descriptor().capabilities.sandbox, asked.sandboxCapabilities);
  },

  async "nothing that is handed over names a fork, and no runtime checkpoint is advertised"() {
    /** @type {any} */ let asked;
    const driver = createManagedRuntimeProviderDriver({ ...options, compose: (o) => { asked = o; return {}; } });
    await driver.create({ placement: "driver_service" });
    const seen = new Set();
    /** @param {any} value @param {string} path */
    const look = (value, path) => {
      assert.doesNotMatch(path, /fork/i);
      if (value === null || typeof value !== "object" && typeof value !== "function" || seen.has(value)) return;
      seen.add(value);
      for (const key of Reflect.ownKeys(value)) look(value[key], `${path}.${String(key)}`);
    };
    for (const [name, value] of Object.entries({ asked, driver, provider, descriptor: driver.descriptor(), told: await provider.descriptor() })) look(value, name);
    for (const name of Object.getOwnPropertyNames(DesktopRuntime.prototype)) assert.doesNotMatch(name, /fork/i);
    for (const d of [driver.descriptor(), await provider.descriptor()]) assert.deepEqual(d.capabilities.sandbox.runtimeCheckpoints, []);
  },

  async "a machine is leased once for a generation, and a stale one changes nothing"() {
    const first = acquisition(1);
    const one = await provider.create({}, {}, first);
    assert.equal((await provider.create({}, {}, first)).id, one.id);
    assert.equal(await one.status(), "running");
    await one.renewLease({ ttlMs: 60_000 });
    const two = await provider.create({}, {}, acquisition(2, first.scope.sessionId));
    await assert.rejects(provider.create({}, {}, first), (error) => refused("stale_generation")(error) && /** @type {any} */ (error).generation === 2);
    await assert.rejects(one.renewLease({ ttlMs: 60_000 }), refused("stale_generation"));
    await assert.rejects(one.exec("true"), refused("stale_generation"));
    await two.destroy();
    await two.destroy();
    assert.equal(await two.status(), "stopped");
    await assert.rejects(two.renewLease({ ttlMs: 60_000 }), refused("not_found"));
  },

  async "an aborted allocation leaves nothing"() {
    const gone = new AbortController();
    gone.abort();
    await assert.rejects(provider.create({}, {}, { ...acquisition(1), signal: gone.signal }));
  },

  async "a suspended machine is gone on from, and old leases reap nothing of it"() {
    const first = acquisition(1);
    const one = await provider.create({}, {}, first);
    const handle = await one.suspend({ kind: "memory" });
    assert.equal(handle.scope, "runtime");
    assert.equal(handle.sourceRuntimeId, one.id);
    const two = await provider.resume({ provider: handle.provider, runtimeId: handle.sourceRuntimeId }, {}, {}, acquisition(2, first.scope.sessionId));
    assert.notEqual(two.id, one.id);
    for (let n = 0; n < 2; n++) await provider.reap({ scope: first.scope, lease: one.runtimeHandle(), reason: "failed" });
    assert.equal(await two.status(), "running");
    await assert.rejects(provider.reap({ scope: first.scope, lease: { provider: "other", runtimeId: two.id } }), refused("conflict"));
    await provider.reap({ scope: first.scope, lease: two.runtimeHandle() });
    assert.equal(await two.status(), "stopped");
    await provider.reap({ scope: first.scope, lease: { ...one.runtimeHandle(), metadata: { "openma.runtime.checkpoint.v1": JSON.stringify(handle) } } });
    await assert.rejects(provider.restore());
  },

  async "files are exact"() {
    const machine = await provider.create({}, {}, acquisition(1));
    const every = Uint8Array.from({ length: 256 }, (_, i) => i);
    const large = new Uint8Array(8 << 20).map((_, i) => i * 7 + (i >> 9));
    for (const [name, bytes] of /** @type {[string, Uint8Array][]} */ ([["all", every], ["empty", new Uint8Array()], ["a/b c/ü?&#%", every], ["large", large]])) {
      await machine.writeFileBytes(`${dir}/${name}`, bytes);
      assert.deepEqual(Buffer.compare(await machine.readFileBytes(`${dir}/${name}`), bytes), 0, name);
    }
    await machine.writeFile(`${dir}/text`, "grüße\n");
    assert.equal(await machine.readFile(`${dir}/text`), "grüße\n");
    await assert.rejects(machine.readFile(`${dir}/../x`), refused("invalid"));
    await assert.rejects(machine.readFile(`${dir}/none`), refused("not_found"));
    await machine.destroy();
  },

  async "a process has stdin, both outputs, half-close and an exit status"() {
    const machine = await provider.create({}, {}, acquisition(1));
    const p = await machine.spawnDuplexProcess({ command: "sh", args: ["-c", 'cat; echo "$A" >&2; exit 3'], env: { A: "to stderr" } });
    const stdin = p.stdin.getWriter();
    const stdout = p.stdout.getReader();
    await stdin.write(utf8.encode("before the end\n"));
    assert.equal(Buffer.from((await stdout.read()).value ?? []).toString(), "before the end\n");
    await stdin.close();
    assert.deepEqual(await p.exited, { code: 3, signal: null });
    assert.equal((await all(p.stderr)).toString(), "to stderr\n");
    assert.equal((await stdout.read()).done, true);
    await assert.rejects((await machine.spawnDuplexProcess({ command: "true" }).then(async (q) => { await q.exited; return q; })).stdin.getWriter().write(utf8.encode("late")));
    await assert.rejects(machine.spawnDuplexProcess({ command: "no-such-program" }), refused("not_found"));
    await machine.destroy();
  },

  async "signals reach a process and its group"() {
    const machine = await provider.create({}, {}, acquisition(1));
    for (const signal of /** @type {const} */ (["SIGTERM", "SIGKILL"])) {
      const p = await machine.spawnDuplexProcess({ command: "sh", args: ["-c", "sleep 1000 & echo on; wait"] });
      const stdout = p.stdout.getReader();
      await stdout.read();
      if (signal === "SIGKILL") p.drop(); // it is told on the next connection
      await p.kill(signal);
      assert.deepEqual(await p.exited, { code: null, signal });
      assert.equal((await stdout.read()).done, true);
    }
    await machine.destroy();
  },

  async "an output that nobody reads holds the other not up"() {
    const machine = await provider.create({}, {}, acquisition(1));
    const p = await machine.spawnDuplexProcess({ command: "sh", args: ["-c", "head -c 4000000 /dev/zero >&2 & seq 1 100000; wait"] });
    const wanted = Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join("");
    const stdout = p.stdout.getReader();
    let got = "";
    while (got.length < wanted.length) got += Buffer.from((await stdout.read()).value ?? []).toString("latin1");
    assert.equal(got, wanted);
    assert.equal((await all(p.stderr)).length, 4_000_000);
    assert.deepEqual(await p.exited, { code: 0, signal: null });
    await machine.destroy();
  },

  async "broken connections lose nothing"() {
    const machine = await provider.create({}, {}, acquisition(1));
    const p = await machine.spawnDuplexProcess({ command: "cat" });
    const bytes = new Uint8Array(6 << 20).map((_, i) => i * 13 + (i >> 11));
    const stdin = p.stdin.getWriter();
    const writing = (async () => {
      for (let at = 0; at < bytes.length; at += 100_000) await stdin.write(bytes.subarray(at, at + 100_000));
      await stdin.close();
    })();
    const stdout = p.stdout.getReader();
    const parts = [];
    for (let size = 0, broken = 0; ;) {
      const { value, done } = await stdout.read();
      if (done) break;
      parts.push(value);
      size += value.length;
      if (size > (broken + 1) * 1_200_000 && broken < 4) {
        broken++;
        p.drop();
      }
    }
    await writing;
    assert.equal(Buffer.compare(Buffer.concat(parts), bytes), 0);
    assert.deepEqual(await p.exited, { code: 0, signal: null });
    await machine.destroy();
  },
};

for (const [name, test] of Object.entries(tests)) {
  const limit = setTimeout(() => {
    console.error(`not ok: ${name}: no end within two minutes`);
    process.exit(1);
  }, 120_000);
  try {
    await test();
    console.log(`ok: ${name}`);
  } catch (error) {
    console.error(`not ok: ${name}:`, error);
    process.exitCode = 1;
  }
  clearTimeout(limit);
}
