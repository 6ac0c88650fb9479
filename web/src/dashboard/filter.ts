import type { Desktop, State } from '../common/types';

/** Wanted is what a person looks for. */
export interface Wanted {
  text: string;
  /** Empty: every state. */
  states: ReadonlySet<State>;
}

/**
 * matches says whether a desktop has all words of a search: in its name, id, image
 * or holder, or as a label, key=value or key alone.
 */
export function matches(d: Desktop, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const hay = [d.name, d.id, d.image, d.in_control?.holder ?? ''].join('\n').toLowerCase();
  const labels = Object.entries(d.labels ?? {}).map(([k, v]) => `${k}=${v}`.toLowerCase());
  return words.every((w) => hay.includes(w) || labels.some((l) => l.includes(w)));
}

/** labelsOf reads labels as they are typed: key=value, divided by commas or spaces. */
export function labelsOf(text: string): Record<string, string> {
  const out: Record<string, string> = {};
  for (const part of text.split(/[,\s]+/).filter(Boolean)) {
    const [key = '', ...rest] = part.split('=');
    if (key) out[key] = rest.join('=');
  }
  return out;
}
