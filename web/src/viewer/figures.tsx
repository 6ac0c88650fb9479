import { useEffect, useState } from 'preact/hooks';
import { bytes } from '../common/format';
import type { Model } from './model';
import type { Figures } from './way';

/** What changed between two looks, per second. */
export interface Rates {
  fps: number;
  bitrate: number;
}

export function rates(before: Figures, now: Figures, seconds: number): Rates {
  const per = (a: number, b: number) => (seconds > 0 ? Math.max(0, b - a) / seconds : 0);
  return { fps: per(before.frames, now.frames), bitrate: per(before.bytes, now.bytes) * 8 };
}

/** FiguresBox tells how the picture comes, as of this second. */
export function FiguresBox({ m }: { m: Model }) {
  const [shown, setShown] = useState<{ f: Figures; r: Rates } | null>(null);
  useEffect(() => {
    let before: Figures | null = null;
    let at = performance.now();
    let closed = false;
    const look = async () => {
      const f = await m.figures();
      const now = performance.now();
      if (closed) return;
      if (f && before && f.bytes >= before.bytes) setShown({ f, r: rates(before, f, (now - at) / 1000) });
      else setShown(f && { f, r: { fps: 0, bitrate: 0 } });
      before = f;
      at = now;
    };
    void look();
    const timer = setInterval(() => void look(), 1000);
    return () => {
      closed = true;
      clearInterval(timer);
    };
  }, [m]);
  if (!shown) return <dl class="figures">Not connected.</dl>;
  const { f, r } = shown;
  const rows: [string, string][] = [
    ['Way', f.via],
    ['Codec', f.codec || '…'],
    ['Picture', `${f.width} × ${f.height}`],
    ['Frames', `${r.fps.toFixed(0)} a second`],
    ['Bitrate', r.bitrate >= 1e6 ? `${(r.bitrate / 1e6).toFixed(1)} Mbit/s` : `${(r.bitrate / 1e3).toFixed(0)} kbit/s`],
    ['Received', bytes(f.bytes)],
  ];
  if (f.roundTrip !== null) rows.push(['Round trip', `${f.roundTrip.toFixed(0)} ms`]);
  if (f.encode !== null) rows.push(['Encoding', `${f.encode.toFixed(1)} ms`]);
  if (f.dropped > 0) rows.push(['Lost', String(f.dropped)]);
  return (
    <div class="figures">
      <dl>
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {m.link.rtcFault && (
        <p>
          WebRTC found no way: {m.link.rtcFault}.{' '}
          <button type="button" class="button" onClick={() => m.link.again()}>
            Try it again
          </button>
        </p>
      )}
    </div>
  );
}
