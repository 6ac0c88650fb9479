/** Light or dark: as the system has it, until the person says otherwise. Loaded first, so that no page flashes. */

export type Theme = 'auto' | 'light' | 'dark';

const key = 'deskfork-theme';

export function theme(): Theme {
  try {
    const kept = localStorage.getItem(key);
    return kept === 'light' || kept === 'dark' ? kept : 'auto';
  } catch {
    return 'auto'; // storage may be forbidden
  }
}

export function setTheme(t: Theme): void {
  apply(t);
  try {
    if (t === 'auto') localStorage.removeItem(key);
    else localStorage.setItem(key, t);
  } catch {
    // It holds for this page alone, then.
  }
}

/** dark says whether the page is dark now. */
export function dark(): boolean {
  const t = theme();
  return t === 'auto' ? matchMedia('(prefers-color-scheme: dark)').matches : t === 'dark';
}

function apply(t: Theme): void {
  if (t === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = t;
}

apply(theme());
