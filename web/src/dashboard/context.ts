import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Desktop, Role } from '../common/types';
import type { Store } from './store';
import type { Thumbs } from './thumbs';
import type { Verb } from './verbs';

/** What is open over the page. */
export type Asked =
  | { kind: 'create' }
  | { kind: 'fork' | 'snapshot' | 'delete'; desktop: Desktop }
  | { kind: 'keys' };

export interface Page {
  store: Store;
  thumbs: Thumbs;
  role: Role;
  /** ask opens a dialog. */
  ask(a: Asked): void;
  /** act does a verb to a desktop, or asks first. */
  act(verb: Verb, d: Desktop): void;
  /** say tells the person what came of something. */
  say(text: string, bad?: boolean): void;
  /** menu opens what else can be done to a desktop, beside an element. */
  menu(id: string, at: HTMLElement): void;
  /** show goes to a desktop's card. */
  show(id: string): void;
}

export const PageContext = createContext<Page | null>(null);

export function usePage(): Page {
  const page = useContext(PageContext);
  if (!page) throw new Error('outside of the page');
  return page;
}
