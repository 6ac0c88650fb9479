import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Card } from './card';
import { usePage } from './context';
import { verbs, may, type Verb } from './verbs';

/** Grid is the cards of the desktops in ids. A card that is there already is not drawn again when others come or go. */
export function Grid({ ids }: { ids: string[] }) {
  const page = usePage();
  const list = useRef<HTMLUListElement>(null);
  const cards = useRef(new Map<string, VNode>());
  const kept = new Map<string, VNode>();
  for (const id of ids) kept.set(id, cards.current.get(id) ?? <Card key={id} id={id} />);
  cards.current = kept;
  useEffect(() => {
    // One card is always reached by Tab.
    const first = ids[0];
    if (first && !ids.includes(page.store.current)) page.store.setCurrent(first);
  }, [ids]);
  return (
    <ul class="grid" ref={list} aria-label="Desktops" onKeyDown={(e) => list.current && keys(e, list.current, page)}>
      {[...kept.values()]}
    </ul>
  );
}

function keys(e: KeyboardEvent, list: HTMLElement, page: ReturnType<typeof usePage>): void {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const card = (e.target as HTMLElement).closest<HTMLElement>('.card');
  const d = page.store.get(card?.dataset['id'] ?? '')?.desktop;
  if (!card || !d) return;
  const to = next(e.key, card, list);
  if (to) {
    e.preventDefault();
    to.querySelector<HTMLElement>('.shot')?.focus();
    to.scrollIntoView({ block: 'nearest' });
    return;
  }
  if (e.key === '.') {
    e.preventDefault();
    page.menu(d.id, card.querySelector<HTMLElement>('[aria-haspopup]') ?? card);
    return;
  }
  const verb = (Object.keys(verbs) as Verb[]).find((v) => verbs[v].key === e.key && may(page.role, v, d));
  if (verb) {
    e.preventDefault();
    page.act(verb, d);
  }
}

/** next is the card that an arrow leads to: beside it, or in the row above or below. */
function next(key: string, card: HTMLElement, list: HTMLElement): HTMLElement | undefined {
  const all = [...list.children] as HTMLElement[];
  const at = all.indexOf(card);
  const top = all[0]?.offsetTop;
  const columns = Math.max(1, all.findIndex((c) => c.offsetTop !== top) === -1 ? all.length : all.findIndex((c) => c.offsetTop !== top));
  switch (key) {
    case 'ArrowRight':
      return all[at + 1];
    case 'ArrowLeft':
      return all[at - 1];
    case 'ArrowDown':
      return all[at + columns] ?? (at < all.length - 1 ? all.at(-1) : undefined);
    case 'ArrowUp':
      return all[at - columns];
    case 'Home':
      return all[0];
    case 'End':
      return all.at(-1);
    default:
      return undefined;
  }
}
