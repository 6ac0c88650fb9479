import { useEffect, useRef } from 'preact/hooks';
import { Icon } from '../common/icons';
import { usePage } from './context';
import { may, verbs, type Verb } from './verbs';

/** Menu is all that can be done to a desktop. It lies above the page, so that no card cuts it off. */
export function Menu({ id, at, close }: { id: string; at: HTMLElement; close: () => void }) {
  const page = usePage();
  const box = useRef<HTMLDivElement>(null);
  const d = page.store.get(id)?.desktop;
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    el.showPopover();
    const a = at.getBoundingClientRect();
    const b = el.getBoundingClientRect();
    el.style.left = `${Math.max(8, Math.min(a.right - b.width, innerWidth - b.width - 8))}px`;
    el.style.top = `${a.bottom + b.height + 12 > innerHeight ? Math.max(8, a.top - b.height - 4) : a.bottom + 4}px`;
    el.querySelector<HTMLElement>('[role="menuitem"]:not([aria-disabled="true"])')?.focus();
    const away = () => close();
    addEventListener('scroll', away, { capture: true, once: true });
    return () => removeEventListener('scroll', away, { capture: true });
  }, []);
  if (!d) return null;
  const move = (e: KeyboardEvent) => {
    const all = [...(box.current?.querySelectorAll<HTMLElement>('[role="menuitem"]:not([aria-disabled="true"])') ?? [])];
    const now = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[e.key];
    if (e.key === 'Escape' || e.key === 'Tab') {
      e.preventDefault();
      close();
      at.focus();
    } else if (to !== undefined) {
      e.preventDefault();
      all.at(to % all.length)?.focus();
    }
  };
  return (
    <div class="menu" popover="auto" role="menu" aria-label={d.name} ref={box} onKeyDown={move} onToggle={(e) => (e as unknown as ToggleEvent).newState === 'closed' && close()}>
      <a role="menuitem" class="item" tabIndex={-1} href={`/view/${encodeURIComponent(id)}`}>
        <Icon name="screen" /> Open <kbd>Enter</kbd>
      </a>
      {(Object.keys(verbs) as Verb[]).filter((v) => verbs[v].states.includes(d.state)).map((v) => {
        const can = may(page.role, v, d);
        return (
          <button
            type="button"
            role="menuitem"
            class={v === 'delete' ? 'item bad' : 'item'}
            key={v}
            tabIndex={-1}
            aria-disabled={!can}
            title={can ? undefined : `This link may ${page.role} only: it takes ${verbs[v].role}`}
            onClick={() => {
              if (!can) return;
              close();
              at.focus();
              page.act(v, d);
            }}
          >
            <Icon name={verbs[v].icon} /> {verbs[v].label} <kbd>{verbs[v].key}</kbd>
          </button>
        );
      })}
    </div>
  );
}
