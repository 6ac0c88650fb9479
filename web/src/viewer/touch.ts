/**
 * Fingers on a touch screen as a pointer: one that is drawn, moved like on a
 * touchpad, so that a finger hides nothing.
 *
 *   tap                    click
 *   tap, then hold and move  drag
 *   long press             right click
 *   two fingers            scroll; a tap of two is a right click
 */
import { button, type Point } from './wire';

export interface Finger extends Point {
  id: number;
}

export interface Play {
  /** The pointer moves by so much of the page, with buttons held. */
  move(by: Point, held: number): void;
  buttons(held: number): void;
  /** Fingers have moved by so much of the page. */
  scroll(by: Point): void;
}

/** Milliseconds and pixels. */
const longPress = 500;
const tapMost = 250;
const againMost = 300;
const slack = 8;

export class Touch {
  private fingers: Finger[] = [];
  private began = 0;
  private ended = -Infinity;
  private travelled = 0;
  private most = 0;
  private held = 0;
  private dragging = false;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly play: Play,
    private readonly now: () => number = () => performance.now(),
  ) {}

  down(list: Finger[]): void {
    if (this.fingers.length === 0) {
      this.began = this.now();
      this.travelled = 0;
      this.most = 0;
      this.dragging = this.began - this.ended < againMost;
      this.timer = setTimeout(() => this.long(), longPress);
    }
    this.fingers = list;
    this.most = Math.max(this.most, list.length);
    if (list.length > 1) clearTimeout(this.timer);
  }

  move(list: Finger[]): void {
    const before = this.fingers;
    this.fingers = list;
    const [a] = list;
    const was = before.find((f) => f.id === a?.id);
    if (!a || !was) return;
    const by = { x: a.x - was.x, y: a.y - was.y };
    this.travelled += Math.hypot(by.x, by.y);
    if (this.travelled < slack) return;
    clearTimeout(this.timer);
    if (this.most > 1) {
      this.play.scroll(by);
      return;
    }
    if (this.dragging && this.held === 0) this.hold(button.left);
    this.play.move(by, this.held);
  }

  up(list: Finger[]): void {
    this.fingers = list;
    if (list.length > 0) return;
    clearTimeout(this.timer);
    const short = this.now() - this.began < tapMost && this.travelled < slack;
    if (this.held) this.hold(0);
    else if (short) this.click(this.most > 1 ? button.right : button.left);
    this.ended = short && this.most === 1 ? this.now() : -Infinity;
    this.dragging = false;
  }

  cancel(): void {
    clearTimeout(this.timer);
    this.fingers = [];
    if (this.held) this.hold(0);
  }

  private long(): void {
    if (this.most === 1 && this.travelled < slack && this.held === 0) {
      this.click(button.right);
      this.travelled = slack; // its end is no click
    }
  }

  private click(b: number): void {
    this.play.buttons(b);
    this.play.buttons(0);
  }

  private hold(b: number): void {
    this.held = b;
    this.play.buttons(b);
  }
}
