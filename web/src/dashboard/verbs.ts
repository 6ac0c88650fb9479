import { post, remove, once } from '../common/api';
import type { IconName } from '../common/icons';
import { can } from '../common/session';
import type { Desktop, Role, State } from '../common/types';

export type Verb = 'fork' | 'pause' | 'resume' | 'suspend' | 'snapshot' | 'delete';

interface About {
  label: string;
  icon: IconName;
  /** The key that does it to the card that has the focus. */
  key: string;
  role: Role;
  states: State[];
}

export const verbs: Record<Verb, About> = {
  fork: { label: 'Fork', icon: 'fork', key: 'f', role: 'control', states: ['ready', 'paused', 'suspended'] },
  pause: { label: 'Pause', icon: 'pause', key: 'p', role: 'control', states: ['ready'] },
  resume: { label: 'Resume', icon: 'play', key: 'p', role: 'control', states: ['paused', 'suspended'] },
  suspend: { label: 'Suspend', icon: 'moon', key: 's', role: 'control', states: ['ready', 'paused'] },
  snapshot: { label: 'Snapshot', icon: 'camera', key: 'k', role: 'control', states: ['ready', 'paused', 'suspended'] },
  delete: { label: 'Delete', icon: 'trash', key: 'Delete', role: 'admin', states: ['ready', 'starting', 'failed', 'stopped', 'paused', 'suspended'] },
};

/** may says whether somebody in a role can do a verb to a desktop now. */
export const may = (role: Role, verb: Verb, d: Desktop): boolean => can(role, verbs[verb].role) && verbs[verb].states.includes(d.state);

const path = (d: Desktop, rest = '') => `/v1/desktops/${encodeURIComponent(d.id)}${rest}`;

/** run does what needs no question, and answers how it went. */
export async function run(verb: 'pause' | 'resume' | 'suspend', d: Desktop): Promise<string> {
  await post(path(d, `/${verb}`));
  return { pause: `${d.name} is paused`, resume: `${d.name} goes on`, suspend: `${d.name} is suspended` }[verb];
}

export async function fork(d: Desktop, count: number, name: string): Promise<Desktop[]> {
  const body = { count, ...(name ? { name } : {}) };
  return (await post<{ desktops: Desktop[] }>(path(d, '/fork'), body, once())).desktops;
}

export const snapshot = (d: Desktop, name: string): Promise<unknown> => post(path(d, '/snapshots'), { name }, once());

export const end = (d: Desktop): Promise<void> => remove(path(d));

export interface Create {
  image?: string;
  snapshot?: string;
  name?: string;
  shape?: string;
  labels?: Record<string, string>;
}

export const create = (c: Create): Promise<Desktop> => post<Desktop>('/v1/desktops', c, once());
