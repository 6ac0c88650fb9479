import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, said } from '../common/api';
import { Icon } from '../common/icons';
import type { Desktop, Image, Snapshot } from '../common/types';
import { usePage, type Asked } from './context';
import { labelsOf } from './filter';
import { create, end, fork, snapshot, type Create } from './verbs';

interface ModalProps {
  title: string;
  /** What the button does, and is called. Absent: there is nothing to do. */
  does?: string;
  danger?: boolean;
  submit?: (form: FormData) => Promise<string>;
  close: () => void;
  children: ComponentChildren;
}

/** Modal asks something. It stays open with the reason when it cannot be done. */
function Modal({ title, does, danger, submit, close, children }: ModalProps) {
  const { say } = usePage();
  const box = useRef<HTMLDialogElement>(null);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState('');
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => before instanceof HTMLElement && before.focus();
  }, []);
  const go = async (e: SubmitEvent) => {
    e.preventDefault();
    if (!submit || busy) return;
    setBusy(true);
    setFault('');
    try {
      const form = new FormData(e.currentTarget as HTMLFormElement);
      const done = await submit(form);
      say(done);
      close();
    } catch (err) {
      setFault(said(err));
      setBusy(false);
    }
  };
  return (
    <dialog class="modal" ref={box} aria-labelledby="modal-title" onClose={close} onClick={(e) => e.target === box.current && close()}>
      <form onSubmit={(e) => void go(e as unknown as SubmitEvent)}>
        <header>
          <h2 id="modal-title">{title}</h2>
          <button type="button" class="button quiet icon" aria-label="Close" onClick={close}><Icon name="close" /></button>
        </header>
        <div class="modal-body">{children}</div>
        {fault && <p class="fault" role="alert">{fault}</p>}
        {does && (
          <footer>
            <button type="button" class="button" autofocus={danger ?? false} onClick={close}>Cancel</button>
            <button type="submit" class={danger ? 'button danger' : 'button primary'} disabled={busy}>{busy ? 'Working…' : does}</button>
          </footer>
        )}
      </form>
    </dialog>
  );
}

function Line({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="line">
      <span>{label}{hint && <small class="muted"> {hint}</small>}</span>
      {children}
    </label>
  );
}

const text = (form: FormData, key: string) => String(form.get(key) ?? '').trim();
const nameField = { class: 'field', maxLength: 63, pattern: '[a-z0-9]([a-z0-9\\-]*[a-z0-9])?', title: 'Small letters, digits and - between them', autocomplete: 'off', spellcheck: false } as const;

export function Dialog({ asked, close }: { asked: Asked; close: () => void }) {
  switch (asked.kind) {
    case 'create':
      return <CreateDialog close={close} />;
    case 'fork':
      return <ForkDialog d={asked.desktop} close={close} />;
    case 'snapshot':
      return (
        <Modal title={`Keep ${asked.desktop.name} as a snapshot`} does="Keep" close={close} submit={async (f) => {
          await snapshot(asked.desktop, text(f, 'name'));
          return `${asked.desktop.name} is kept as ${text(f, 'name')}`;
        }}>
          <p class="muted">Memory, screen, programs and disks of this instant. The desktop goes on; others can be made of the snapshot.</p>
          <Line label="Name"><input name="name" required autofocus {...nameField} /></Line>
        </Modal>
      );
    case 'delete':
      return (
        <Modal title={`Delete ${asked.desktop.name}?`} does="Delete" danger close={close} submit={async () => {
          await end(asked.desktop);
          return `${asked.desktop.name} is deleted`;
        }}>
          <p>Its memory and disks are gone then, files in <code>/workspace</code> that were not kept included. What was forked off it goes on.</p>
        </Modal>
      );
    case 'keys':
      return <Keys close={close} />;
  }
}

function ForkDialog({ d, close }: { d: Desktop; close: () => void }) {
  return (
    <Modal title={`Fork ${d.name}`} does="Fork" close={close} submit={async (f) => {
      const children = await fork(d, Number(text(f, 'count')) || 1, text(f, 'name'));
      return children.length === 1 ? `${children[0]?.name} was forked off ${d.name}` : `${children.length} desktops were forked off ${d.name}`;
    }}>
      <p class="muted">Each goes on from this instant, with the same windows, programs and files. {d.name} goes on too.</p>
      <div class="pair">
        <Line label="How many"><input name="count" class="field" type="number" min={1} max={200} value={1} required autofocus /></Line>
        <Line label="Name" hint="or prefix, when several"><input name="name" placeholder="made up" {...nameField} /></Line>
      </div>
    </Modal>
  );
}

function CreateDialog({ close }: { close: () => void }) {
  const [sources, setSources] = useState<{ images: Image[]; snapshots: Snapshot[] }>();
  const [fault, setFault] = useState('');
  useEffect(() => {
    Promise.all([get<{ images: Image[] }>('/v1/images'), get<{ snapshots: Snapshot[] }>('/v1/snapshots')]).then(
      ([i, s]) => setSources({ images: i.images, snapshots: s.snapshots.filter((x) => x.kind === 'snapshot' && !x.fault) }),
      (e: unknown) => setFault(said(e)),
    );
  }, []);
  const none = sources && sources.images.length + sources.snapshots.length === 0;
  return (
    <Modal title="New desktop" does="Create" close={close} submit={async (f) => {
      const [kind, ref = ''] = text(f, 'source').split(/:(.*)/s);
      const req: Create = kind === 'snapshot' ? { snapshot: ref } : { image: ref, shape: text(f, 'shape') };
      if (text(f, 'name')) req.name = text(f, 'name');
      const labels = labelsOf(text(f, 'labels'));
      if (Object.keys(labels).length > 0) req.labels = labels;
      return `${(await create(req)).name} is starting`;
    }}>
      <Line label="From">
        <select name="source" class="field" required autofocus>
          {!sources && <option value="">{fault || 'Loading…'}</option>}
          {sources && sources.images.length > 0 && (
            <optgroup label="Images">
              {sources.images.map((i) => <option key={i.digest} value={`image:${i.tags[0] ?? i.digest}`}>{i.tags[0] ?? i.name}</option>)}
            </optgroup>
          )}
          {sources && sources.snapshots.length > 0 && (
            <optgroup label="Snapshots">
              {sources.snapshots.map((s) => <option key={s.id} value={`snapshot:${s.id}`}>{s.name ?? s.id}</option>)}
            </optgroup>
          )}
        </select>
      </Line>
      {none && <p class="muted">There is no image yet. <code>vmhost image build images/debian-xfce</code> builds one.</p>}
      <div class="pair">
        <Line label="Name"><input name="name" placeholder="made up" {...nameField} /></Line>
        <Line label="Shape" hint="of an image">
          <select name="shape" class="field">
            <option>small</option>
            <option selected>medium</option>
            <option>large</option>
          </select>
        </Line>
      </div>
      <Line label="Labels" hint="key=value, …"><input name="labels" class="field" autocomplete="off" spellcheck={false} /></Line>
    </Modal>
  );
}

const shortcuts: [string, string][] = [
  ['/', 'search'],
  ['← ↑ → ↓', 'from card to card'],
  ['Enter', 'open the desktop'],
  ['n', 'new desktop'],
  ['f', 'fork'],
  ['p', 'pause, or let it go on'],
  ['s', 'suspend'],
  ['k', 'keep as a snapshot'],
  ['Delete', 'delete'],
  ['.', 'all that can be done'],
  ['1 2 3 4', 'desktops, lineage, use, events'],
  ['t', 'light, dark, as the system'],
  ['?', 'this list'],
];

function Keys({ close }: { close: () => void }) {
  return (
    <Modal title="By keyboard" close={close}>
      <dl class="keys">
        {shortcuts.map(([key, what]) => (
          <div key={key}>
            <dt>{key.split(' ').map((k) => <kbd key={k}>{k}</kbd>)}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}
