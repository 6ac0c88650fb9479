import { useState } from 'preact/hooks';
import { post } from '../common/api';
import { can } from '../common/session';
import type { Role } from '../common/types';
import type { Model } from './model';

const times: [string, number][] = [['10 minutes', 600], ['1 hour', 3600], ['8 hours', 28_800]];
const roles: [Role, string][] = [['view', 'May watch'], ['control', 'May take control']];

/** Share makes a link for somebody else, of no more than this page may do itself. */
export function Share({ m, close }: { m: Model; close(): void }) {
  const [role, setRole] = useState<Role>('view');
  const [ttl, setTTL] = useState(3600);
  const [link, setLink] = useState('');
  if (!can(m.view.role, 'admin')) {
    return <p class="help">This link does not let you make others. Somebody with a token does: vmhost open {m.about?.name ?? m.desktop}</p>;
  }
  const make = () =>
    m.attempt(async () => {
      const t = await post<{ url: string }>(`/v1/desktops/${encodeURIComponent(m.desktop)}/tickets`, { kind: 'view', role, ttl_s: ttl });
      setLink(t.url);
    });
  return (
    <div class="form">
      <label for="role">Who has the link</label>
      <select id="role" class="field" value={role} onChange={(e) => setRole(e.currentTarget.value as Role)}>
        {roles.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
      </select>
      <label for="ttl">For</label>
      <select id="ttl" class="field" value={String(ttl)} onChange={(e) => setTTL(Number(e.currentTarget.value))}>
        {times.map(([name, value]) => <option key={value} value={String(value)}>{name}</option>)}
      </select>
      {link ? (
        <>
          <input class="field" readOnly value={link} aria-label="Link" onFocus={(e) => e.currentTarget.select()} />
          <button
            type="button"
            class="button primary"
            onClick={() => {
              void navigator.clipboard?.writeText(link).then(() => m.tell('The link is copied.'));
              close();
            }}
          >
            Copy the link
          </button>
        </>
      ) : (
        <button type="button" class="button primary" disabled={m.busy} onClick={() => void make()}>
          Make a link
        </button>
      )}
    </div>
  );
}
