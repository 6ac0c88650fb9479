// @ts-check
// Deskfork's desktops as an out-of-tree provider of OpenMA: what its loader asks for, over the host's HTTP API.
import { Host, HostError, isGone } from "./http.js";
import { DesktopRuntime, providerName } from "./runtime.js";

export { DesktopRuntime, HostError, providerName };

/** Where OpenMA's composition keeps the handle of a suspended lease. */
const suspendedKey = "openma.runtime.checkpoint.v1";

/** @typedef {{workspaceId: string, environmentId: string, sessionId: string, workId: string}} Scope */
/** @typedef {{scope: Scope, fence: {generation: number, ownerId?: string}, workspace?: {bindingId: string}, plan?: {workspaceStrategy?: string}, signal?: AbortSignal}} Acquisition */
/**
 * @typedef {object} Options
 * @property {string} baseUrl of the host
 * @property {string} apiKey of the driver
 * @property {string} image what is booted: a name or a digest of the host's images
 * @property {string} [digest] what the image must resolve to
 * @property {string} [shape] of the machine
 * @property {number} [leaseTtlMs] default 90000
 * @property {unknown} [outputStore] a blob store for deliverables; none: outputs are disabled
 * @property {(options: object) => any} [compose] in place of OpenMA's createProviderManagedRuntime
 */

/**
 * Makes and finds machines.
 * @param {Options} options
 */
export function createProvider(options) {
  if (!options.image) throw new Error("desktop-vm needs an image to boot");
  const host = new Host(options);
  /**
   * @param {Acquisition | undefined} acquisition
   * @param {object} [restore]
   */
  const lease = async (acquisition, restore) => {
    if (acquisition === undefined) throw new Error("desktop-vm leases machines under a fence: there is no acquisition");
    const { scope, fence, signal } = acquisition;
    const made = await host.call("POST", "/v1/sandboxes", {
      signal, generation: fence.generation, key: `${scope.workId}:${fence.generation}:sandbox-acquire`,
      body: {
        scope: { workspaceId: scope.workspaceId, environmentId: scope.environmentId, sessionId: scope.sessionId, workId: scope.workId },
        generation: fence.generation, ownerId: fence.ownerId, ttlMs: options.leaseTtlMs,
        artifact: { type: "image", reference: options.image, digest: options.digest },
        resources: { shape: options.shape },
        workspace: {
          bindingId: acquisition.workspace?.bindingId, restore,
          strategy: restore !== undefined ? "retained_runtime" : acquisition.plan?.workspaceStrategy,
        },
      },
    });
    return new DesktopRuntime(host, made.runtimeId, fence.generation);
  };
  return {
    /** @param {object} _context @param {object} _env @param {Acquisition} [acquisition] */
    create: (_context, _env, acquisition) => lease(acquisition),
    /** @param {{provider: string, runtimeId: string}} handle @param {object} _context @param {object} _env @param {Acquisition} [acquisition] */
    resume: (handle, _context, _env, acquisition) => lease(acquisition, {
      provider: handle.provider, checkpointId: handle.runtimeId, sourceRuntimeId: handle.runtimeId, kind: "memory", scope: "runtime",
    }),
    restore: async () => {
      throw new Error("desktop-vm restores no portable checkpoints");
    },
    /** @param {{scope: Scope, lease: {provider: string, runtimeId: string, metadata?: Record<string, any>}, reason?: string}} orphan */
    reap: async ({ scope, lease: { provider, runtimeId, metadata }, reason }) => {
      const suspended = metadata?.[suspendedKey]; // what the machine became, when it was suspended and not published
      const ids = suspended === undefined ? [runtimeId] : [runtimeId, JSON.parse(suspended).checkpointId];
      for (const id of ids) await host.call("POST", "/v1/reap", { body: { scope, lease: { provider, runtimeId: id }, reason } });
    },
    descriptor: async () => {
      const is = await host.call("GET", "/v1/descriptor");
      is.capabilities.sandbox.runtimeCheckpoints = []; // the host has them, this driver no port for them
      return is;
    },
  };
}

/** @param {Options} options */
const capabilities = (options) => ({
  sandbox: { suspendResume: "supported", hardTerminate: "supported", runtimeCheckpoints: [] },
  workspace: { strategies: ["retained_runtime", "ephemeral"] },
  outputs: { strategies: options.outputStore ? [{ strategy: "final_collect", durability: "durable" }] : [] },
  harness: { drivers: ["ama_worker", "openma_supervised"] },
});

/**
 * The driver that OpenMA's loader asks for.
 * @param {Options} options
 */
export function createManagedRuntimeProviderDriver(options) {
  const provider = createProvider(options);
  const can = capabilities(options);
  return {
    descriptor: () => ({
      provider: providerName, version: "1.0.0", placements: ["driver_service"], capabilities: can,
      credentialEgress: { enforcement: "unsupported", credentialMode: "snapshot", interceptedProtocols: [] },
    }),
    /** @param {{placement: string}} input */
    create: async ({ placement }) => {
      if (placement !== "driver_service") throw new Error(`desktop-vm does not run as ${placement}`);
      const is = await provider.descriptor();
      const drift = Object.entries(can.sandbox).filter(([name, want]) => JSON.stringify(is.capabilities.sandbox[name]) !== JSON.stringify(want));
      if (is.provider !== providerName || drift.length > 0 || can.workspace.strategies.some((s) => !is.capabilities.workspace.includes(s))) {
        throw new Error(`the host cannot do what desktop-vm says: ${JSON.stringify(is.capabilities)}`);
      }
      const name = "@open-managed-agents/managed-runtime-sandbox";
      const compose = options.compose ?? (await import(name)).createProviderManagedRuntime;
      const made = compose({
        providerName, provider, leaseTtlMs: options.leaseTtlMs ?? 90_000,
        context: (/** @type {Scope} */ scope) => ({ sessionId: scope.sessionId, workdir: "/workspace" }),
        environment: () => ({}),
        sandboxCapabilities: can.sandbox,
        workspace: { strategies: can.workspace.strategies, retainedSuspendKind: "memory" },
        ...(options.outputStore ? { outputs: { store: options.outputStore, durability: "durable" } } : {}),
        drivers: ["ama_worker"],
        runtimeEnvironment: { type: "image", reference: options.image, digest: options.digest },
        reapRuntime: provider.reap,
      });
      return {
        sandbox: made.sandbox, workspace: made.workspace, outputs: made.outputs, harnessDriver: made.harness,
        supervisorTransport: made.supervisorTransport, sessionInputs: made.sessionInputs,
      };
    },
  };
}

/**
 * A machine for tools alone: one whole session is its own work, at generation 1.
 * @param {{sessionId: string}} context
 * @param {Record<string, string | undefined>} env DESKTOP_VM_URL, DESKTOP_VM_KEY, DESKTOP_VM_IMAGE
 */
export async function sandboxFactory(context, env) {
  const { DESKTOP_VM_URL: baseUrl = "", DESKTOP_VM_KEY: apiKey = "", DESKTOP_VM_IMAGE: image = "" } = env;
  return createProvider({ baseUrl, apiKey, image }).create(context, env, {
    scope: { workspaceId: "standalone", environmentId: "standalone", sessionId: context.sessionId, workId: context.sessionId },
    fence: { generation: 1 },
  });
}

export { isGone };
