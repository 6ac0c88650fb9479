/** The viewer: a desktop's picture with what can be done about it. */
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import type { View } from '../common/types';
import { Bar } from './bar';
import { FiguresBox } from './figures';
import { who } from './lease';
import type { Mark } from './activity';
import { Model, type Tab } from './model';
import { Panel } from './panel';
import { Player } from './player';
import type { Carrier } from './way';

export function App({ view, desktop, only }: { view: View; desktop: string; only: Carrier | '' }) {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const [m, setModel] = useState<Model | null>(null);
  const [tab, setTab] = useState<Tab | ''>('');
  const [figures, setFigures] = useState(false);
  const [over, setOver] = useState(false);
  const page = useRef<HTMLDivElement>(null);
  const room = useRef<HTMLDivElement>(null);
  const screen = useRef<HTMLDivElement>(null);
  const video = useRef<HTMLVideoElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const pointer = useRef<HTMLCanvasElement>(null);
  const input = useRef<HTMLTextAreaElement>(null);

  useEffect(() => {
    if (!room.current || !screen.current || !video.current || !canvas.current || !pointer.current || !input.current) return;
    const el = { room: room.current, screen: screen.current, video: video.current, canvas: canvas.current, pointer: pointer.current, input: input.current };
    const leave = () => page.current?.querySelector<HTMLElement>('.bar button:not(:disabled)')?.focus();
    const model = new Model(view, desktop, el, () => redraw(0), leave, only);
    setModel(model);
    model.start();
    return () => model.close();
  }, [view, desktop, only]);

  const drop = (e: DragEvent) => {
    e.preventDefault();
    setOver(false);
    if (!m || !e.dataTransfer) return;
    if (m.mayAct) m.uploads.add([...e.dataTransfer.files]);
    else m.tell('This link is for watching only.');
  };

  return (
    <div class={tab ? 'page open' : 'page'} ref={page}>
      {m ? <Bar m={m} tab={tab} setTab={setTab} figures={figures} setFigures={setFigures} page={page.current} /> : <header class="bar" />}
      <main
        class="stage"
        onDragOver={(e) => {
          e.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        <div class={`room ${m?.status.phase ?? 'connecting'}`} ref={room}>
          <div class="screen" ref={screen}>
            <video ref={video} muted playsInline disablePictureInPicture aria-label="Screen of the desktop" />
            <canvas ref={canvas} class="picture" hidden aria-label="Screen of the desktop" />
            <canvas ref={pointer} class="pointer" hidden aria-hidden="true" />
            {m && <Marks m={m} />}
            <textarea
              ref={input}
              class="keys"
              aria-label={m?.mine ? 'The desktop: keys go to it. Ctrl, Alt and Shift together lead back to the buttons.' : 'The desktop. Enter offers to take control.'}
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
            />
          </div>
        </div>
        {m && <State m={m} />}
        {m?.reel.playing && <Player key={m.reel.playing.id} m={m} of={m.reel.playing} />}
        {m?.offering && !m.mine && <Offer m={m} />}
        {over && <div class="over">{m?.mayAct ? 'Drop files here: they land in the desktop' : 'This link is for watching only'}</div>}
        {m && figures && <FiguresBox m={m} />}
        {m && <Notes m={m} />}
      </main>
      {m && tab && <Panel m={m} tab={tab} setTab={setTab} />}
    </div>
  );
}

/** State says why there is no picture, or that it stands still. */
function State({ m }: { m: Model }) {
  const { phase, title, text } = m.status;
  if (phase === 'live') return null;
  const working = phase === 'connecting' || phase === 'reconnecting';
  return (
    <div class={`state ${phase}`} role={working ? 'status' : 'alert'}>
      {working && <span class="spinner" aria-hidden="true" />}
      <div>
        <h2>{title}</h2>
        {text && <p class="muted">{text}</p>}
        {phase === 'over' && <pre>vmhost open {m.about?.name ?? m.desktop}</pre>}
      </div>
      {phase !== 'connecting' && phase !== 'over' && (
        <button type="button" class="button" onClick={() => m.again()}>
          Try now
        </button>
      )}
    </div>
  );
}

/** Offer is what a click on the picture of a desktop leads to that the person does not control. */
function Offer({ m }: { m: Model }) {
  const c = m.control;
  const may = !c?.held || m.mayAdmin || (c.kind === 'agent' && m.about?.control_policy?.take !== 'nobody');
  return (
    <div class="offer" role="alertdialog" aria-label="Control">
      <p>{c?.held ? `${who(c.holder, c.kind)} has control.` : 'You are watching.'}</p>
      {may ? (
        <button type="button" class="button primary" disabled={m.busy} onClick={() => void m.take()}>
          Take control
        </button>
      ) : (
        <button type="button" class="button primary" disabled={m.busy} onClick={() => void m.attempt(() => m.lease.ask())}>
          Ask for control
        </button>
      )}
      <button
        type="button"
        class="button"
        onClick={() => {
          m.offering = false;
          m.tell('You go on watching.');
        }}
      >
        Go on watching
      </button>
    </div>
  );
}

function Marks({ m }: { m: Model }) {
  return (
    <div class="marks" aria-hidden="true">
      {m.marks.map((k) => <One key={k.seq} m={m} mark={k} />)}
    </div>
  );
}

function One({ m, mark }: { m: Model; mark: Mark }) {
  const p = m.stage?.place(mark) ?? { x: 0, y: 0 };
  const at = { transform: `translate(${p.x}px, ${p.y}px)` };
  const path = mark.path?.map((q) => m.stage?.place(q) ?? p);
  return (
    <>
      {path && (
        <svg class="path">
          <polyline points={path.map((q) => `${q.x},${q.y}`).join(' ')} />
        </svg>
      )}
      <div class="mark" style={at}>
        <span class={`ring ${mark.shape}`} />
        {mark.label && <span class="label">{mark.label}</span>}
      </div>
    </>
  );
}

function Notes({ m }: { m: Model }) {
  return (
    <div class="notes" aria-live="polite">
      {m.uploads.list.map((u) => (
        <div key={u.id} class={`note ${u.state === 'failed' ? 'bad' : ''}`}>
          <span class="truncate">{u.name}</span>
          {u.state === 'sending' && <progress value={u.done} aria-label={`Sending ${u.name}`} />}
          {u.state === 'sent' && <span class="muted">is in the desktop</span>}
          {u.state === 'failed' && (
            <>
              <span>{u.fault}</span>
              <button type="button" class="button quiet" onClick={() => m.uploads.remove(u.id)}>
                Close
              </button>
            </>
          )}
        </div>
      ))}
      {m.toasts.map((t) => (
        <div key={t.id} class={`note ${t.bad ? 'bad' : ''}`}>{t.text}</div>
      ))}
    </div>
  );
}
