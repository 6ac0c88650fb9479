/** The picture on the page, with the pointer drawn here, and what the person does on it. */
import { Keyboard, type Stroke } from './keyboard';
import { buttonsOf, toScreen, Wheel } from './pointer';
import { Touch, type Finger } from './touch';
import type { Pen, Point, Said } from './wire';
import type { Carrier } from './way';

export type Scale = 'fit' | 'actual';

export interface Elements {
  /** What the picture may fill, and scrolls in. */
  room: HTMLElement;
  /** What has the picture's size. */
  screen: HTMLElement;
  video: HTMLVideoElement;
  canvas: HTMLCanvasElement;
  pointer: HTMLCanvasElement;
  /** Takes what an IME or a phone's keyboard writes. */
  input: HTMLTextAreaElement;
}

export interface StageEvents {
  send(message: ArrayBuffer, lossy?: boolean): void;
  /** The person has acted on the picture without having control. */
  knocked(): void;
  /** The person wants to leave the picture by the keyboard. */
  left(): void;
}

/** What an input field holds when it is empty, so that a phone's backspace has something to take away. */
const filler = '\u200b';
/** How long the page's own pointer counts, and not what the desktop says of it, in milliseconds. */
const own = 400;

export class Stage {
  readonly keyboard: Keyboard;

  private size = { width: 0, height: 0 };
  private scale: Scale = 'fit';
  private driving = false;
  private at: Point = { x: 0, y: 0 };
  private hot: Point = { x: 0, y: 0 };
  private lookSeen = false;
  private movedAt = -Infinity;
  private held = 0;
  private readonly wheel = new Wheel();
  private readonly touch: Touch;
  private readonly stop = new AbortController();
  private readonly resized: ResizeObserver;
  private chord = new Set<string>();

  constructor(
    private readonly el: Elements,
    private readonly pen: Pen,
    private readonly on: StageEvents,
  ) {
    const mac = /Mac|iPhone|iPad/.test(navigator.platform);
    this.keyboard = new Keyboard(
      { key: (k, down) => on.send(pen.key(k, down)), text: (text) => pen.text(text).forEach((m) => on.send(m)) },
      mac,
    );
    this.touch = new Touch({
      move: (by, held) => this.glide(by, held),
      buttons: (held) => this.press(this.at, held),
      scroll: (by) => this.turn({ deltaX: -by.x, deltaY: -by.y, deltaMode: 0 }),
    });
    this.resized = new ResizeObserver(() => this.layout());
    this.resized.observe(el.room);
    this.listen();
    el.input.value = filler;
  }

  /** show says which element has the picture. */
  show(c: Carrier): void {
    this.el.video.hidden = c !== 'webrtc';
    this.el.canvas.hidden = c === 'webrtc';
  }

  resize(width: number, height: number): void {
    if (width <= 0 || height <= 0 || (width === this.size.width && height === this.size.height)) return;
    this.size = { width, height };
    this.layout();
  }

  setScale(s: Scale): void {
    this.scale = s;
    this.layout();
  }

  /** drive says whether the person has control: whether what he does is sent. */
  drive(on: boolean): void {
    if (this.driving === on) return;
    this.driving = on;
    this.el.screen.classList.toggle('driving', on);
    if (!on) {
      this.held = 0;
      this.keyboard.forget(); // the desktop has let go of everything at the hand-over
    }
    this.draw();
  }

  focus(): void {
    this.el.input.focus({ preventScroll: true });
  }

  /** letGo releases what is held down. */
  letGo(): void {
    this.touch.cancel();
    this.chord.clear();
    this.keyboard.forget();
    if (!this.driving) return;
    if (this.held) this.press(this.at, 0);
    this.on.send(this.pen.release());
  }

  said(m: Said): void {
    if (m.kind === 'look') void this.look(m.hot, m.png);
    if (m.kind === 'place' && (!this.driving || performance.now() - this.movedAt > own)) {
      this.at = m.at;
      this.draw();
    }
  }

  /** Where on the picture a point of the desktop lies, in the page's pixels. */
  place(p: Point): Point {
    const w = this.el.screen.clientWidth;
    const h = this.el.screen.clientHeight;
    return { x: (p.x + 0.5) * (w / (this.size.width || 1)), y: (p.y + 0.5) * (h / (this.size.height || 1)) };
  }

  close(): void {
    this.stop.abort();
    this.resized.disconnect();
  }

  private layout(): void {
    const { room, screen } = this.el;
    const { width, height } = this.size;
    if (width === 0) return;
    const fit = Math.min(room.clientWidth / width, room.clientHeight / height);
    const by = this.scale === 'fit' ? fit : 1 / devicePixelRatio;
    room.classList.toggle('scrolls', this.scale === 'actual' && by > fit);
    screen.style.width = `${Math.floor(width * by)}px`;
    screen.style.height = `${Math.floor(height * by)}px`;
    screen.classList.toggle('sharp', by >= 1 && Number.isInteger(by * devicePixelRatio));
    this.draw();
  }

  private async look(hot: Point, png: Uint8Array | null): Promise<void> {
    const { pointer } = this.el;
    if (!png) {
      pointer.width = pointer.height = 1;
      this.lookSeen = true;
      this.draw();
      return;
    }
    const image = await createImageBitmap(new Blob([png as BlobPart], { type: 'image/png' }));
    pointer.width = image.width;
    pointer.height = image.height;
    pointer.getContext('2d')?.drawImage(image, 0, 0);
    image.close();
    this.hot = hot;
    this.lookSeen = true;
    this.draw();
  }

  /** draw puts the pointer where it is. */
  private draw(): void {
    const { pointer, screen } = this.el;
    pointer.hidden = !this.lookSeen;
    screen.classList.toggle('pointed', this.lookSeen);
    const by = screen.clientWidth / (this.size.width || 1);
    const p = this.place({ x: this.at.x - 0.5, y: this.at.y - 0.5 });
    const grow = Math.max(by, 0.75); // one that can still be seen
    pointer.style.transform = `translate(${p.x - this.hot.x * grow}px, ${p.y - this.hot.y * grow}px) scale(${grow})`;
  }

  private listen(): void {
    const { screen, input } = this.el;
    const o = { signal: this.stop.signal };
    screen.addEventListener('pointerdown', (e) => this.down(e), o);
    screen.addEventListener('pointermove', (e) => this.moved(e), o);
    screen.addEventListener('pointerup', (e) => this.up(e), o);
    screen.addEventListener('pointercancel', (e) => (e.pointerType === 'touch' ? this.touch.cancel() : this.letGo()), o);
    screen.addEventListener('contextmenu', (e) => e.preventDefault(), o);
    screen.addEventListener('wheel', (e) => this.wheeled(e), { ...o, passive: false });
    for (const type of ['touchstart', 'touchmove', 'touchend'] as const) {
      screen.addEventListener(type, (e) => this.touched(e), { ...o, passive: false });
    }
    screen.addEventListener('touchcancel', () => this.touch.cancel(), o);
    input.addEventListener('keydown', (e) => this.key(e, true), o);
    input.addEventListener('keyup', (e) => this.key(e, false), o);
    input.addEventListener('input', (e) => this.written(e as InputEvent), o);
    input.addEventListener('compositionstart', () => input.classList.add('composing'), o);
    input.addEventListener('compositionend', (e) => this.composed(e), o);
    input.addEventListener('beforeinput', (e) => this.erased(e), o);
    input.addEventListener('blur', () => this.letGo(), o);
    window.addEventListener('blur', () => this.letGo(), o);
    document.addEventListener('visibilitychange', () => document.hidden && this.letGo(), o);
  }

  private point(e: MouseEvent, clamped = false): Point | null {
    return toScreen({ x: e.clientX, y: e.clientY }, this.el.screen.getBoundingClientRect(), this.size, clamped);
  }

  private down(e: PointerEvent): void {
    if (e.pointerType === 'touch') return;
    this.focus();
    e.preventDefault();
    if (!this.driving) {
      this.on.knocked();
      return;
    }
    this.el.screen.setPointerCapture(e.pointerId);
    const p = this.point(e);
    if (p) this.press(p, buttonsOf(e.buttons));
  }

  private moved(e: PointerEvent): void {
    if (e.pointerType === 'touch' || !this.driving) return;
    const p = this.point(e, this.held !== 0);
    if (!p) return;
    const held = buttonsOf(e.buttons);
    if (held !== this.held && this.held !== 0) {
      this.press(p, held); // a second button goes down, or comes up, in a move
      return;
    }
    this.move(p);
  }

  private up(e: PointerEvent): void {
    if (e.pointerType === 'touch' || !this.driving) return;
    const p = this.point(e, true);
    if (p && this.held) this.press(p, buttonsOf(e.buttons));
  }

  private move(p: Point): void {
    this.at = p;
    this.movedAt = performance.now();
    this.draw();
    this.on.send(this.pen.move(p), true);
  }

  private press(p: Point, held: number): void {
    if (!this.driving) return;
    this.at = p;
    this.held = held;
    this.movedAt = performance.now();
    this.draw();
    this.on.send(this.pen.buttons(p, held));
  }

  private wheeled(e: WheelEvent): void {
    if (e.ctrlKey && !this.driving) return; // zooms the page
    e.preventDefault();
    this.turn(e);
  }

  private turn(e: { deltaX: number; deltaY: number; deltaMode: number }): void {
    const by = this.wheel.turn(e);
    if (by && this.driving) this.on.send(this.pen.scroll(this.at, by));
  }

  private glide(by: Point, held: number): void {
    if (!this.driving) return;
    const per = this.size.width / (this.el.screen.clientWidth || 1);
    // A finger is short and a screen is wide.
    const fast = 1 + Math.min(1.5, Math.hypot(by.x, by.y) / 20);
    const p = {
      x: Math.min(this.size.width - 1, Math.max(0, Math.round(this.at.x + by.x * per * fast))),
      y: Math.min(this.size.height - 1, Math.max(0, Math.round(this.at.y + by.y * per * fast))),
    };
    if (held) this.press(p, held);
    else this.move(p);
  }

  private touched(e: TouchEvent): void {
    if (!this.driving) {
      if (e.type === 'touchend' && e.touches.length === 0) this.on.knocked();
      return; // the page scrolls and zooms
    }
    e.preventDefault();
    const list: Finger[] = [...e.touches].map((t) => ({ id: t.identifier, x: t.clientX, y: t.clientY }));
    if (e.type === 'touchstart') this.touch.down(list);
    else if (e.type === 'touchmove') this.touch.move(list);
    else this.touch.up(list);
  }

  private key(e: KeyboardEvent, down: boolean): void {
    if (this.leaves(e, down)) return;
    if (!this.driving) {
      if (down && e.key === 'Enter') {
        e.preventDefault();
        this.on.knocked();
      }
      return; // the browser's own keys go on working
    }
    const stroke = e as Stroke;
    if (down ? this.keyboard.pressed(stroke) : this.keyboard.released(stroke)) e.preventDefault();
  }

  /** leaves: Ctrl, Alt and Shift together, and nothing else, lead back to the page's own buttons. */
  private leaves(e: KeyboardEvent, down: boolean): boolean {
    if (down) {
      if (e.repeat) return false;
      this.chord.add(e.code.replace(/(Left|Right)$/, ''));
      return false;
    }
    const all = this.chord.size === 3 && ['Control', 'Alt', 'Shift'].every((k) => this.chord.has(k));
    this.chord.clear();
    if (!all) return false;
    this.letGo();
    this.on.left();
    return true;
  }

  private erased(e: InputEvent): void {
    if (e.isComposing || !this.driving) return;
    if (e.inputType === 'deleteContentBackward') this.instead(e, 'Backspace');
    else if (e.inputType === 'insertLineBreak' || e.inputType === 'insertParagraph') this.instead(e, 'Enter');
  }

  private instead(e: InputEvent, code: string): void {
    e.preventDefault();
    this.keyboard.tap(code);
  }

  private written(e: InputEvent): void {
    if (!e.isComposing) this.take();
  }

  private composed(e: CompositionEvent): void {
    this.el.input.classList.remove('composing');
    // Some browsers put the text into the field only after this event.
    if (this.el.input.value.replaceAll(filler, '') === '' && e.data) setTimeout(() => this.take(), 0);
    else this.take();
  }

  private take(): void {
    const text = this.el.input.value.replaceAll(filler, '');
    this.el.input.value = filler;
    this.el.input.setSelectionRange(1, 1);
    if (this.driving) this.keyboard.typed(text);
  }
}

