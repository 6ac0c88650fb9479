import { useEffect, useState } from 'preact/hooks';
import { get, said } from '../common/api';
import type { CostReport } from '../common/types';

const names: Record<string, string> = {
  sandbox_active_seconds: 'Desktops running',
  session_alive_seconds: 'Sessions alive',
  browser_active_seconds: 'Browsers with a page',
  vcpu_seconds: 'Processors',
  memory_gib_seconds: 'Memory',
  disk_gib_seconds: 'Disk',
  egress_bytes: 'Sent to the world',
  viewer_seconds: 'People watching',
};

/** What a kind is drawn in: hours for what is counted in seconds, GiB for bytes. */
function unit(kind: string): { divide: number; name: string } {
  if (kind.endsWith('_gib_seconds')) return { divide: 3600, name: 'GiB-hours' };
  if (kind.endsWith('_seconds')) return { divide: 3600, name: kind === 'vcpu_seconds' ? 'vCPU-hours' : 'hours' };
  return { divide: 2 ** 30, name: 'GiB' };
}

const figure = (n: number) => (n === 0 ? '0' : n < 0.01 ? '< 0.01' : n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : Math.round(n).toLocaleString());

/** ceiling is the next round number above, for an axis. */
export function ceiling(n: number): number {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return ([1, 2, 5, 10].find((m) => m * power >= n) ?? 10) * power;
}

/** days are the last so many days, YYYY-MM-DD, UTC, as the server counts them. */
function days(count: number): string[] {
  const today = Date.now();
  return Array.from({ length: count }, (_, i) => new Date(today - (count - 1 - i) * 86_400_000).toISOString().slice(0, 10));
}

export function Usage() {
  const [report, setReport] = useState<CostReport>();
  const [fault, setFault] = useState('');
  const [kind, setKind] = useState('sandbox_active_seconds');
  const all = days(30);
  useEffect(() => {
    const read = () => get<CostReport>(`/v1/cost/report?start=${all[0]}&end=${all.at(-1)}`).then((r) => (setReport(r), setFault('')), (e: unknown) => setFault(said(e)));
    void read();
    const timer = setInterval(read, 60_000);
    return () => clearInterval(timer);
  }, []);
  if (fault) return <p class="empty fault" role="alert">{fault}</p>;
  if (!report) return <p class="empty muted">Reading what was used…</p>;
  const kinds = Object.keys(names).filter((k) => k === 'sandbox_active_seconds' || report.lines.some((l) => l.kind === k && l.value > 0));
  const u = unit(kind);
  const values = new Map(report.daily.map((d) => [d.day, (d.values[kind] ?? 0) / u.divide]));
  return (
    <section class="panel usage" aria-label="Use">
      <div class="kinds" role="group" aria-label="What was used">
        {kinds.map((k) => {
          const line = report.lines.find((l) => l.kind === k);
          return (
            <button type="button" key={k} class="tile" aria-pressed={k === kind} onClick={() => setKind(k)}>
              <span class="muted">{names[k]}</span>
              <strong>{figure((line?.value ?? 0) / unit(k).divide)} <small>{unit(k).name}</small></strong>
              {line?.cost && <span class="muted">{Number(line.cost.amount).toFixed(2)} {line.cost.currency}</span>}
            </button>
          );
        })}
        {report.total_cost && (
          <div class="tile total">
            <span class="muted">Cost, 30 days</span>
            <strong>{Number(report.total_cost.amount).toFixed(2)} <small>{report.total_cost.currency}</small></strong>
          </div>
        )}
      </div>
      <Chart title={`${names[kind]}, ${u.name} a day`} days={all} values={all.map((d) => values.get(d) ?? 0)} unit={u.name} />
      <p class="muted">Days are UTC, the last one is not over. Running desktops are counted up to their last minutes.</p>
    </section>
  );
}

const size = { width: 1200, height: 260, left: 48, right: 14, bottom: 24, top: 10 };

function Chart({ title, days: list, values, unit: name }: { title: string; days: string[]; values: number[]; unit: string }) {
  const most = ceiling(Math.max(...values));
  const inner = size.height - size.bottom - size.top;
  const step = (size.width - size.left - size.right) / list.length;
  const at = (v: number) => size.top + inner - (v / most) * inner;
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <svg viewBox={`0 0 ${size.width} ${size.height}`} role="img" aria-label={`${title}: ${list.map((d, i) => `${d} ${figure(values[i] ?? 0)}`).join(', ')}`}>
        {[0, 0.2, 0.4, 0.6, 0.8, 1].map((part) => (
          <g key={part}>
            <line class="rule" x1={size.left} x2={size.width - size.right} y1={at(part * most)} y2={at(part * most)} />
            <text class="tick" x={size.left - 8} y={at(part * most) + 4} text-anchor="end">{part === 0 ? 0 : Number((part * most).toPrecision(3))}</text>
          </g>
        ))}
        {list.map((d, i) => {
          const v = values[i] ?? 0;
          return (
            <g key={d}>
              <title>{`${d}: ${figure(v)} ${name}`}</title>
              <rect class="ground" x={size.left + i * step} y={size.top} width={step} height={inner} />
              <rect class="column" x={size.left + i * step + step * 0.15} y={at(v)} width={step * 0.7} height={Math.max(0, size.top + inner - at(v))} rx={2} />
              {(list.length - 1 - i) % 7 === 0 && <text class="tick" x={size.left + (i + 0.5) * step} y={size.height - 6} text-anchor="middle">{d.slice(5)}</text>}
            </g>
          );
        })}
      </svg>
    </figure>
  );
}
