import { useEffect, useState } from 'preact/hooks';
import { get, said } from '../common/api';
import { bytes } from '../common/format';
import type { Node, State } from '../common/types';
import { usePage } from './context';
import { layout } from './tree';
import { tone } from './words';

const box = { width: 196, height: 40, across: 64, down: 12, edge: 8 };
const x = (column: number) => box.edge + column * (box.width + box.across);
const y = (row: number) => box.edge + row * (box.height + box.down);

const kinds = { image: 'image', snapshot: 'snapshot', desktop: 'desktop' } as const;

function toneOf(n: Node): string {
  if (n.gone) return 'off';
  return n.kind === 'desktop' ? (tone[n.state as State] ?? 'off') : n.kind;
}

/** Lineage draws who came from whom. */
export function Lineage() {
  const page = usePage();
  const [nodes, setNodes] = useState<Node[]>();
  const [fault, setFault] = useState('');
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const read = () => {
      get<{ nodes: Node[] }>('/v1/tree').then(
        (t) => !over && (setNodes(t.nodes), setFault('')),
        (e: unknown) => !over && setFault(said(e)),
      );
    };
    const soon = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        read();
      }, 400);
    };
    read();
    const off = page.store.on('list', soon);
    return () => {
      over = true;
      clearTimeout(timer);
      off();
    };
  }, []);
  if (fault) return <p class="empty fault" role="alert">{fault}</p>;
  if (!nodes) return <p class="empty muted">Reading the lineage…</p>;
  const { places, columns, rows } = layout(nodes);
  const width = x(columns - 1) + box.width + box.edge;
  const height = y(rows - 1) + box.height + box.edge;
  return (
    <section class="panel lineage" aria-label="Lineage">
      <p class="legend muted">
        <Key tone="image" text="image" /> <Key tone="snapshot" text="snapshot" /> <Key tone="good" text="ready" /> <Key tone="rest" text="at rest" /> <Key tone="bad" text="failed" /> <Key tone="off" text="gone" />
        <span>Figures: memory of its own.</span>
      </p>
      <div class="scroll" tabIndex={0} role="group" aria-label="Drawing of the lineage">
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="tree" aria-label="Who came from whom">
          {places.map((p) => p.parent && <path key={`e${p.node.id}`} class="edge" d={edge(x(p.parent.column) + box.width, y(p.parent.row) + box.height / 2, x(p.column), y(p.row) + box.height / 2)} />)}
          {places.map((p) => {
            const n = p.node;
            const name = n.name || n.id;
            const open = n.kind === 'desktop' && !n.gone;
            const what = `${kinds[n.kind]} ${name}${n.state ? `, ${n.state}` : ''}${n.gone ? ', gone' : ''}`;
            const inner = (
              <>
                <title>{what}</title>
                <rect width={box.width} height={box.height} rx={6} />
                <circle cx={14} cy={box.height / 2} r={4} />
                <text x={28} y={17} class="name">{short(name, 24)}</text>
                <text x={28} y={31} class="sub">{n.gone ? 'gone' : (n.state ?? n.kind)}{n.memory_private_bytes > 0 ? ` · ${bytes(n.memory_private_bytes)}` : ''}</text>
              </>
            );
            return (
              <g key={n.id} class="node" role="treeitem" aria-level={p.column + 1} data-tone={toneOf(n)} data-kind={n.kind} transform={`translate(${x(p.column)} ${y(p.row)})`}>
                {open ? (
                  <a href={`#${n.id}`} aria-label={what} onClick={(e) => { e.preventDefault(); page.show(n.id); }}>{inner}</a>
                ) : inner}
              </g>
            );
          })}
        </svg>
      </div>
    </section>
  );
}

const short = (s: string, most: number) => (s.length > most ? `${s.slice(0, most - 1)}…` : s);

function edge(x1: number, y1: number, x2: number, y2: number): string {
  const mid = (x1 + x2) / 2;
  return `M${x1} ${y1}C${mid} ${y1} ${mid} ${y2} ${x2} ${y2}`;
}

function Key({ tone: t, text }: { tone: string; text: string }) {
  return <span class="key"><i class="dot" data-tone={t} />{text}</span>;
}
