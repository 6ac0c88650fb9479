/** The list of what was recorded. */
import { bytes } from '../common/format';
import type { Model } from './model';
import { moment, type Recording } from './reel';

const reasons: Record<string, string> = {
  size: 'goes on in the next one: the screen’s size changed',
  long: 'goes on in the next one',
  gone: 'ended with the machine',
  disk_full: 'ended as the disk was full',
  host_stopped: 'ended with the server',
  host_died: 'ended as the server broke off',
  failed: 'ended with a fault',
};

export function Recordings({ m }: { m: Model }) {
  const { list } = m.reel;
  return (
    <div class="recordings">
      {list.length === 0 && <p class="muted">Nothing is recorded. {m.mayAct ? 'The button with a circle, above, records what is seen here.' : 'Somebody with role control can record what is seen here.'}</p>}
      <ul>
        {list.map((r) => <Row key={r.id} m={m} r={r} />)}
      </ul>
    </div>
  );
}

function Row({ m, r }: { m: Model; r: Recording }) {
  const begun = new Date(r.begun).toLocaleString();
  if (r.state === 'recording') {
    return (
      <li>
        <span>{begun}</span>
        <span class="muted small">It runs. It can be watched when it is stopped.</span>
      </li>
    );
  }
  const name = `${m.about?.name ?? m.desktop}-${r.begun.slice(0, 19).replaceAll(':', '')}.webm`;
  return (
    <li>
      <span>{begun}</span>
      <span class="muted small">
        {moment(r.duration_ms)}, {bytes(r.bytes)}, {r.chapters.length === 1 ? '1 chapter' : `${r.chapters.length} chapters`}
        {r.reason && reasons[r.reason] ? `; ${reasons[r.reason]}` : ''}
      </span>
      <div class="row">
        <button type="button" class="button" aria-pressed={m.reel.playing?.id === r.id} onClick={() => m.reel.play(r)}>Watch</button>
        <a class="button" href={m.reel.url(r)} download={name}>Download</a>
        {m.mayAdmin && <button type="button" class="button quiet" disabled={m.busy} onClick={() => confirm(`Delete the recording of ${begun}?`) && void m.attempt(() => m.reel.remove(r))}>Delete</button>}
      </div>
    </li>
  );
}
