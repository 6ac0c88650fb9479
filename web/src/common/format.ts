/** What people read: ages, sizes. */

const steps: [number, string][] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
];

/** span is a length of time in its two largest units: 2 h 5 min. */
export function span(seconds: number): string {
  let left = Math.max(0, Math.floor(seconds));
  const out: string[] = [];
  for (const [size, unit] of steps) {
    const n = Math.floor(left / size);
    left -= n * size;
    if (n > 0) out.push(`${n} ${unit}`);
    else if (out.length > 0) break;
    if (out.length === 2) break;
  }
  return out.join(' ') || '0 s';
}

/** age is how long ago a moment was, in its largest unit: 5 min. */
export function age(moment: string, now: number): string {
  const seconds = Math.max(0, (now - Date.parse(moment)) / 1000);
  for (const [size, unit] of steps) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return '0 s';
}

/** bytes is a size: 1.5 GiB. */
export function bytes(n: number): string {
  let value = n;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (value < 1024) return `${value >= 100 || unit === 'B' ? Math.round(value) : Number(value.toPrecision(2))} ${unit}`;
    value /= 1024;
  }
  return `${Number(value.toPrecision(3))} TiB`;
}

/** clock is a moment's time of day, as the person's place has it. */
export const clock = (moment: string): string => new Date(moment).toLocaleTimeString(undefined, { hour12: false });
