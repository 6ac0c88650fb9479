import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './icons';

export interface ButtonProps {
  icon: IconName;
  label: string;
  pressed?: boolean;
  disabled?: boolean;
  onClick(): void;
}

/** IconButton says what it does to who points at it, and to who cannot see it. */
export function IconButton({ icon, label, pressed, disabled, onClick }: ButtonProps) {
  return (
    <button type="button" class="button quiet icon tip" aria-label={label} data-tip={label} aria-pressed={pressed} disabled={disabled} onClick={onClick}>
      <Icon name={icon} />
    </button>
  );
}

/** Menu opens below its button. Escape, a click beside it and a choice close it; arrows go through it. */
export function Menu({ icon, label, disabled, children }: { icon: IconName; label: string; disabled?: boolean; children: (close: () => void) => ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const close = () => {
    setOpen(false);
    box.current?.querySelector<HTMLElement>('button')?.focus();
  };
  useEffect(() => {
    if (!open) return;
    const beside = (e: Event) => !box.current?.contains(e.target as Node) && setOpen(false);
    document.addEventListener('pointerdown', beside, true);
    box.current?.querySelector<HTMLElement>('.menu button, .menu input, .menu textarea')?.focus();
    return () => document.removeEventListener('pointerdown', beside, true);
  }, [open]);
  const key = (e: KeyboardEvent) => {
    if (e.key === 'Escape') close();
    if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return;
    const items = [...(box.current?.querySelectorAll<HTMLElement>('.menu .item') ?? [])];
    const i = items.indexOf(document.activeElement as HTMLElement);
    if (i < 0) return;
    e.preventDefault();
    items.at((i + (e.key === 'ArrowDown' ? 1 : -1)) % items.length)?.focus();
  };
  return (
    <div class="menubox" ref={box} onKeyDown={key}>
      <button type="button" class="button quiet icon tip" aria-label={label} data-tip={label} aria-expanded={open} disabled={disabled} onClick={() => setOpen(!open)}>
        <Icon name={icon} />
      </button>
      {open && <div class="menu">{children(close)}</div>}
    </div>
  );
}

/** Item is a choice of a menu. */
export function Item({ onClick, children, checked, disabled }: { onClick(): void; children: ComponentChildren; checked?: boolean; disabled?: boolean }) {
  return (
    <button type="button" class="item" onClick={onClick} aria-pressed={checked} disabled={disabled}>
      {children}
    </button>
  );
}
