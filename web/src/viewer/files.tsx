/** Files of the desktop: all of them under role admin, the folder for people's own under control. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, said } from '../common/api';
import { bytes } from '../common/format';
import { save } from './bar';
import { Icon } from './icons';
import type { Model } from './model';

interface File {
  name: string;
  path: string;
  type: 'file' | 'dir' | 'symlink' | 'other';
  size: number;
  mtime: string;
}

const sorted = (list: File[]): File[] => list.sort((a, b) => Number(b.type === 'dir') - Number(a.type === 'dir') || a.name.localeCompare(b.name));

/** parent is the folder that a folder is in. */
export const parent = (path: string): string => path.replace(/\/[^/]*\/?$/, '') || '/';

export function Files({ m }: { m: Model }) {
  const folder = m.about?.control_policy?.drop ?? '/workspace/dropped';
  const [path, setPath] = useState(m.mayAdmin ? '/workspace' : folder);
  const [list, setList] = useState<File[] | null>(null);
  const [fault, setFault] = useState('');
  const pick = useRef<HTMLInputElement>(null);
  const base = `/v1/desktops/${encodeURIComponent(m.desktop)}`;
  const sent = m.uploads.list.filter((u) => u.state === 'sent').length;

  useEffect(() => {
    const stop = new AbortController();
    const url = m.mayAdmin ? `${base}/list?path=${encodeURIComponent(path)}` : `${base}/dropped`;
    get<{ entries: File[] }>(url, stop.signal).then(
      (l) => {
        setList(sorted(l.entries));
        setFault('');
      },
      (e: unknown) => {
        if (stop.signal.aborted) return;
        setList([]);
        setFault(said(e));
      },
    );
    return () => stop.abort();
  }, [path, sent, m.mayAdmin]);

  const fetchFile = (f: File) =>
    m.attempt(async () => {
      const url = m.mayAdmin ? `${base}/files?path=${encodeURIComponent(f.path)}` : `${base}/dropped/${encodeURIComponent(f.name)}`;
      const resp = await fetch(url, { credentials: 'same-origin' });
      if (!resp.ok) throw new Error(`The file cannot be read (status ${resp.status}).`);
      save(await resp.blob(), f.name);
    });

  return (
    <div class="files">
      <div class="row">
        {m.mayAdmin && (
          <button type="button" class="button icon" aria-label="Folder above" disabled={path === '/'} onClick={() => setPath(parent(path))}>
            <Icon name="up" />
          </button>
        )}
        <span class="where truncate" title={path}>{path}</span>
        <button type="button" class="button" onClick={() => pick.current?.click()}>Upload…</button>
        <input
          ref={pick}
          type="file"
          multiple
          hidden
          onChange={(e) => {
            m.uploads.add([...(e.currentTarget.files ?? [])]);
            e.currentTarget.value = '';
          }}
        />
      </div>
      {m.mayAdmin && path !== folder && <p class="muted small">Uploads land in {folder}.</p>}
      {fault && <p class="muted">{fault}</p>}
      {list?.length === 0 && !fault && <p class="muted">Nothing is here. Drop files on the desktop, and they land here.</p>}
      <ul>
        {list?.map((f) => (
          <li key={f.name}>
            <button type="button" class="item" onClick={() => (f.type === 'dir' ? m.mayAdmin && setPath(f.path) : void fetchFile(f))} aria-label={f.type === 'dir' ? `Open folder ${f.name}` : `Download ${f.name}`}>
              <Icon name={f.type === 'dir' ? 'folder' : 'file'} />
              <span class="truncate">{f.name}</span>
              <span class="muted">{f.type === 'file' ? bytes(f.size) : ''}</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
