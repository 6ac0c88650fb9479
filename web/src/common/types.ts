/** The parts of the API's types (pkg/api) that the pages read. */

export type Role = 'view' | 'control' | 'admin';

/** What the page's ticket opens. */
export interface View {
  /** Id of the only desktop; absent: all of the project. */
  desktop?: string;
  project: string;
  role: Role;
  /** Absent: with the token. */
  expires?: string;
}

export type State = 'starting' | 'ready' | 'failed' | 'stopped' | 'deleting' | 'paused' | 'suspended';

export interface Failure {
  code: string;
  detail?: string;
  stage?: string;
  hint?: string;
}

export interface Control {
  held: boolean;
  holder?: string;
  kind?: 'agent' | 'person';
  epoch: number;
  mine?: boolean;
  expires?: string;
  asking?: { holder: string; kind: 'agent' | 'person'; since: string }[];
}

export interface Desktop {
  id: string;
  name: string;
  project: string;
  image: string;
  shape: string;
  labels?: Record<string, string>;
  display: { width: number; height: number };
  state: State;
  waiting?: string;
  stages: { stage: string; reached: string; took_ms: number }[];
  failure?: Failure;
  accelerator?: string;
  origin?: string;
  origin_reason?: string;
  parent?: string;
  snapshot?: string;
  expires?: string;
  created: string;
  started?: string;
  memory_private_bytes?: number;
  disk_private_bytes?: number;
  cpu_seconds?: number;
  in_control?: { holder: string; kind: 'agent' | 'person' };
  policy?: { ttl_s?: number; idle_s?: number; idle_action?: string };
}

/** One thing that happened. */
export interface Event {
  seq: number;
  time: string;
  type: string;
  desktop?: string;
  data?: Record<string, unknown>;
}

export interface Image {
  digest: string;
  name: string;
  tags: string[];
  os: string;
}

export interface Snapshot {
  id: string;
  name?: string;
  kind: string;
  desktop?: string;
  shape: string;
  created: string;
  fault?: string;
}

export interface Node {
  kind: 'image' | 'snapshot' | 'desktop';
  id: string;
  name?: string;
  parent?: string;
  state?: string;
  gone?: boolean;
  created: string;
  memory_private_bytes: number;
  memory_shared_bytes: number;
  disk_private_bytes: number;
}

export interface CostReport {
  period: { start: string; end: string; days: number };
  lines: { kind: string; quantity: string; unit: string; value: number; cost: { amount: string; currency: string } | null }[];
  daily: { day: string; values: Record<string, number> }[];
  total_cost: { amount: string; currency: string } | null;
}
