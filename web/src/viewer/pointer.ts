/** From the page's points to the desktop's, and wheels of all kinds to notches. */
import { button, type Point } from './wire';

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** toScreen is the desktop's pixel under a point of the page; null: it lies beside the picture. clamped: the nearest one instead. */
export function toScreen(p: Point, box: Box, size: { width: number; height: number }, clamped = false): Point | null {
  if (box.width <= 0 || box.height <= 0 || size.width <= 0 || size.height <= 0) return null;
  const x = Math.floor(((p.x - box.left) * size.width) / box.width);
  const y = Math.floor(((p.y - box.top) * size.height) / box.height);
  const inside = x >= 0 && y >= 0 && x < size.width && y < size.height;
  if (!inside && !clamped) return null;
  return { x: Math.min(size.width - 1, Math.max(0, x)), y: Math.min(size.height - 1, Math.max(0, y)) };
}

/** buttonsOf turns MouseEvent.buttons into the desktop's. */
export function buttonsOf(buttons: number): number {
  const map: [number, number][] = [[1, button.left], [2, button.right], [4, button.middle], [8, button.back], [16, button.forward]];
  return map.reduce((sum, [mask, b]) => (buttons & mask ? sum | b : sum), 0);
}

/** What of a WheelEvent counts. */
export interface Turn {
  deltaX: number;
  deltaY: number;
  deltaMode: number;
}

/** A notch, as the desktop counts. */
const notch = 120;
/** Pixels of a page that browsers scroll by one notch. */
const notchPixels = 100;

/** Wheel gathers turns, so that slow ones of a touchpad are not lost to rounding. */
export class Wheel {
  private rest: Point = { x: 0, y: 0 };

  /** turn answers how far to scroll now, in 1/120 of a notch; null: not yet. */
  turn(e: Turn): Point | null {
    const per = e.deltaMode === 0 ? notch / notchPixels : e.deltaMode === 1 ? notch / 3 : notch * 5;
    this.rest.x += e.deltaX * per;
    this.rest.y += e.deltaY * per;
    const by = { x: Math.trunc(this.rest.x), y: Math.trunc(this.rest.y) };
    if (by.x === 0 && by.y === 0) return null;
    this.rest.x -= by.x;
    this.rest.y -= by.y;
    return by;
  }
}
