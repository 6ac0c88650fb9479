import type { Desktop, Event, State } from '../common/types';

/** States in the order in which they are counted and filtered by. */
export const states: State[] = ['ready', 'starting', 'paused', 'suspended', 'failed', 'stopped', 'deleting'];

/** How a state looks. */
export const tone: Record<State, string> = {
  ready: 'good', starting: 'busy', paused: 'rest', suspended: 'rest', failed: 'bad', stopped: 'off', deleting: 'off',
};

/** hasScreen says whether a desktop in a state shows something. */
export const hasScreen = (s: State): boolean => s === 'ready' || s === 'starting' || s === 'paused' || s === 'failed';

/** reason says why a desktop is not simply ready; empty when it is. */
export function reason(d: Desktop): string {
  switch (d.state) {
    case 'starting':
      return d.waiting ?? `reached ${d.stages.at(-1)?.stage ?? 'nothing yet'}`;
    case 'failed':
      return d.failure ? `${d.failure.stage ? `${d.failure.stage}: ` : ''}${d.failure.detail ?? d.failure.code}` : 'no reason is known';
    case 'paused':
      return 'its processors stand still';
    case 'suspended':
      return 'its memory lies on disk';
    case 'stopped':
      return 'the guest switched itself off';
    default:
      return '';
  }
}

/** origin says where a desktop came from. */
export function origin(d: Desktop): string {
  switch (d.origin) {
    case 'cold':
      return d.origin_reason ? `booted: ${d.origin_reason}` : 'booted';
    case 'fork':
      return 'forked';
    case 'snapshot':
      return 'from a snapshot';
    case 'resume':
      return 'resumed';
    case 'restore':
      return 'restored';
    default:
      return d.image;
  }
}

/** told is an event as a sentence whose subject is the desktop, and how it is meant. */
export function told(e: Event): { text: string; tone: string } {
  const data = (key: string) => (e.data?.[key] === undefined ? '' : String(e.data[key]));
  switch (e.type) {
    case 'desktop.created':
      return { text: data('parent') ? 'was forked off' : 'was created', tone: 'busy' };
    case 'desktop.stage':
      return { text: `reached ${data('stage')} after ${data('took_ms')} ms`, tone: 'busy' };
    case 'desktop.waiting':
      return { text: `waits: ${data('for')}`, tone: 'busy' };
    case 'desktop.ready':
      return { text: 'is ready', tone: 'good' };
    case 'desktop.failed':
      return { text: `failed: ${data('detail') || data('code')}`, tone: 'bad' };
    case 'desktop.stopped':
      return { text: 'has stopped', tone: 'off' };
    case 'desktop.deleted':
      return { text: 'was deleted', tone: 'off' };
    case 'desktop.adopted':
      return { text: 'was found running', tone: 'good' };
    case 'desktop.forked':
      return { text: 'was forked', tone: 'good' };
    case 'desktop.paused':
      return { text: e.data?.['by_policy'] ? 'was paused by its policy' : 'was paused', tone: 'rest' };
    case 'desktop.suspended':
      return { text: 'was suspended', tone: 'rest' };
    case 'desktop.resumed':
      return { text: 'goes on', tone: 'good' };
    case 'desktop.restored':
      return { text: 'was put back to a snapshot', tone: 'good' };
    case 'desktop.expiring':
      return { text: `is about to end: ${data('action')} by its policy`, tone: 'warn' };
    case 'exec.started':
      return { text: 'runs a program', tone: 'off' };
    case 'exec.ended':
      return { text: 'has ended a program', tone: 'off' };
    case 'control.taken':
      return { text: `is controlled by ${data('kind')} ${data('holder')}`, tone: 'warn' };
    case 'control.given':
      return { text: `was given to ${data('kind')} ${data('holder')}`, tone: 'warn' };
    case 'control.released':
      return { text: 'is controlled by nobody', tone: 'off' };
    case 'control.lost':
      return { text: 'lost who controlled it', tone: 'off' };
    case 'control.asked':
      return { text: `is asked for by ${data('kind')} ${data('holder')}`, tone: 'warn' };
    case 'viewer.joined':
      return { text: `is watched by ${data('who') || data('viewer') || 'a viewer'}`, tone: 'off' };
    case 'viewer.left':
      return { text: 'has a viewer less', tone: 'off' };
    case 'recording.started':
      return { text: 'is recorded', tone: 'off' };
    case 'recording.ended':
      return { text: 'is not recorded any more', tone: data('reason') === 'disk_full' || data('reason') === 'failed' ? 'warn' : 'off' };
    case 'recording.removed':
      return { text: 'has a recording less', tone: 'off' };
    case 'snapshot.created':
      return { text: `was kept as ${data('name')}`, tone: 'good' };
    case 'snapshot.removed':
      return { text: `lost snapshot ${data('name')}`, tone: 'off' };
    default:
      return { text: e.type, tone: 'off' };
  }
}
