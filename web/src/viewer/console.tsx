/** A shell in the desktop. */
import '@xterm/xterm/css/xterm.css';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import { useEffect, useRef, useState } from 'preact/hooks';
import { post, said } from '../common/api';
import { dark } from '../common/theme';
import { styled, within } from './sheet';

const subprotocol = 'deskfork-exec-v1';
const stdin = 0;

interface Message {
  kind: string;
  status?: { exit_code?: number };
  error?: { detail?: string };
}

const themes = {
  dark: { background: '#0b0d11', foreground: '#e7eaef', cursor: '#86aefc', selectionBackground: '#2c4370' },
  light: { background: '#ffffff', foreground: '#1a1f27', cursor: '#2557c7', selectionBackground: '#c9d9fb', white: '#596273', brightWhite: '#1a1f27', yellow: '#8a5a00', brightYellow: '#8a5a00' },
};

/** Console starts a shell, and shows it until one of the two is closed. */
export default function Console({ desktop }: { desktop: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [over, setOver] = useState('');
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const term = new Terminal({
      documentOverride: styled(document), fontFamily: '"DejaVu Sans Mono", ui-monospace, monospace', fontSize: 13, cursorBlink: true,
      scrollback: 5000, theme: dark() ? themes.dark : themes.light, screenReaderMode: false,
    });
    const fit = new FitAddon();
    term.loadAddon(fit);
    within(document, () => term.open(el));
    fit.fit();
    const close = attach(desktop, term, setOver);
    const watch = new ResizeObserver(() => fit.fit());
    watch.observe(el);
    term.focus();
    return () => {
      watch.disconnect();
      close();
      term.dispose();
    };
  }, [desktop, turn]);
  return (
    <div class="console">
      <div class="terminal" ref={box} />
      {over && (
        <p class="ended" role="status">
          {over}{' '}
          <button
            type="button"
            class="button"
            onClick={() => {
              setOver('');
              setTurn(turn + 1);
            }}
          >
            New shell
          </button>
        </p>
      )}
    </div>
  );
}

/** attach joins a terminal to a new shell, which ends with it. */
function attach(desktop: string, term: Terminal, over: (why: string) => void): () => void {
  const path = `/v1/desktops/${encodeURIComponent(desktop)}/execs`;
  let ws: WebSocket | null = null;
  let closed = false;
  const send = (m: object | Uint8Array) => ws?.readyState === WebSocket.OPEN && ws.send(m instanceof Uint8Array ? (m as Uint8Array<ArrayBuffer>) : JSON.stringify(m));
  term.onData((text) => {
    const bytes = new TextEncoder().encode(text);
    const m = new Uint8Array(bytes.byteLength + 1);
    m[0] = stdin;
    m.set(bytes, 1);
    send(m);
  });
  term.onResize((size) => send({ kind: 'resize', cols: size.cols, rows: size.rows }));
  const begin = async () => {
    const exec = { argv: ['/bin/bash', '-l'], env: { TERM: 'xterm-256color' }, pty: true, stdin: true, cols: term.cols, rows: term.rows, kill_on_detach: true };
    const { id } = await post<{ id: string }>(path, exec);
    if (closed) return;
    const url = new URL(`${path}/${encodeURIComponent(id)}/attach?stdin=true`, location.href);
    url.protocol = url.protocol.replace('http', 'ws');
    ws = new WebSocket(url, [subprotocol]);
    ws.binaryType = 'arraybuffer';
    ws.onmessage = (e) => {
      if (typeof e.data !== 'string') {
        term.write(new Uint8Array(e.data as ArrayBuffer, 1));
        return;
      }
      const m = JSON.parse(e.data) as Message;
      if (m.kind === 'attached') send({ kind: 'resize', cols: term.cols, rows: term.rows });
      if (m.kind === 'end') over(`The shell has ended with status ${m.status?.exit_code ?? 0}.`);
      if (m.kind === 'error') over(m.error?.detail ?? 'The shell was lost.');
    };
    ws.onclose = () => !closed && over('The connection to the shell has ended.');
  };
  begin().catch((e: unknown) => over(said(e)));
  return () => {
    closed = true;
    ws?.close();
  };
}
