/** A recording in place of the picture, with its timeline. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from './icons';
import type { Model } from './model';
import { chapterAt, moment, type Recording } from './reel';

export function Player({ m, of }: { m: Model; of: Recording }) {
  const video = useRef<HTMLVideoElement>(null);
  const line = useRef<HTMLInputElement>(null);
  const [at, setAt] = useState(0);
  const [running, setRunning] = useState(false);
  const whole = Math.max(of.duration_ms, 1);
  const seek = (ms: number) => {
    const v = video.current;
    if (!v) return;
    v.currentTime = Math.min(Math.max(ms, 0), whole) / 1000;
    setAt(v.currentTime * 1000);
  };
  const toggle = () => {
    const v = video.current;
    if (!v) return;
    if (v.paused) void v.play().catch(() => undefined); // the error event tells
    else v.pause();
  };
  useEffect(() => {
    m.stage?.letGo(); // keys go to the timeline now
    line.current?.focus();
  }, []);
  const now = of.chapters[chapterAt(of.chapters, at)];
  return (
    <section class="player" aria-label="Recording">
      <video
        ref={video}
        src={m.reel.url(of)}
        muted
        playsInline
        preload="auto"
        aria-label="What was recorded"
        onClick={toggle}
        onPlay={() => setRunning(true)}
        onPause={() => setRunning(false)}
        onTimeUpdate={(e) => setAt(e.currentTarget.currentTime * 1000)}
        onError={() => m.tell('The recording cannot be played here. Download it instead.', true)}
      />
      <div class="timeline">
        <button type="button" class="button quiet icon" aria-label={running ? 'Pause' : 'Play'} onClick={toggle}>
          <Icon name={running ? 'pause' : 'play'} />
        </button>
        <div class="track">
          <input
            ref={line}
            type="range"
            min={0}
            max={whole}
            step={100}
            value={at}
            aria-label="Time"
            aria-valuetext={`${moment(at)} of ${moment(whole)}`}
            onInput={(e) => seek(Number(e.currentTarget.value))}
          />
          <div class="ticks">
            {of.chapters.map((c) => (
              <button key={c.at_ms} type="button" class="tick" title={`${moment(c.at_ms)} ${c.title}`} aria-label={`Chapter at ${moment(c.at_ms)}: ${c.title}`} style={{ left: `${(100 * c.at_ms) / whole}%` }} onClick={() => seek(c.at_ms)} />
            ))}
          </div>
        </div>
        <span class="time">{moment(at)} / {moment(whole)}</span>
        <button type="button" class="button primary" onClick={() => m.reel.play(null)}>Back to now</button>
        <span class="chapter truncate" role="status">{now?.title ?? ''}</span>
      </div>
    </section>
  );
}
