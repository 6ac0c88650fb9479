/**
 * A keyboard of any layout on a desktop of any layout.
 *
 * Keys whose character the desktop's own keyboard writes at the same place go as
 * keys, so that they can be held down. Every other character goes as text, which the
 * desktop types as it is meant: ß, what AltGr makes, dead keys, an IME. The locks
 * stay with the viewer: a capital is a capital, whatever the desktop's lock says.
 */
import { character, homeOf, keysym, keyOf, meant, modifier, modifiers, place, written } from './keys';
import type { Key } from './wire';

/** What of a KeyboardEvent counts. */
export interface Stroke {
  key: string;
  code: string;
  repeat?: boolean;
  isComposing?: boolean;
  keyCode?: number;
  ctrlKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
  metaKey: boolean;
  timeStamp: number;
  getModifierState(name: string): boolean;
}

export interface Hands {
  key(k: Key, down: boolean): void;
  text(text: string): void;
}

/** On Windows AltGr comes with a control key that nobody has pressed, this soon before it, in milliseconds. */
const phantom = 20;

export class Keyboard {
  /** Keys that are down in the desktop, by the code of the key that the person holds. */
  private readonly down = new Map<string, Key>();
  private controlAt = -Infinity;

  /** The desktop's layout; us or empty: characters may go as keys. */
  layout = '';
  /** Every key by its place: for games and firmware. */
  plain = false;

  constructor(
    private readonly hands: Hands,
    private readonly mac = false,
  ) {}

  /** pressed plays a keydown; it answers whether that was all of it, so that the browser should do nothing. */
  pressed(e: Stroke): boolean {
    if (e.isComposing || e.keyCode === 229 || e.key === 'Process' || e.key === 'Dead' || e.key === 'Unidentified') return false;
    if (e.key === 'AltGraph') return this.altGraph(e);
    if (e.key === 'CapsLock' || e.key === 'NumLock') return true;
    if (modifiers[e.code] && !character(e.key)) {
      if (e.code === 'ControlLeft') this.controlAt = e.timeStamp;
      if (!this.down.has(e.code)) this.press(e.code, modifier(e.code));
      return true;
    }
    if (character(e.key)) {
      this.write(e);
      return true;
    }
    const k = meant(e.key, e.code) ?? (place(e.code) ? keyOf(e.code) : null);
    if (!k) return false;
    this.modify(e);
    if (!this.down.has(e.code)) this.press(e.code, k);
    return true;
  }

  /** released plays a keyup. */
  released(e: Stroke): boolean {
    if (this.mac && e.code.startsWith('Meta')) this.letGo((code) => !modifiers[code]); // a Mac tells of no other key's end meanwhile
    const k = this.down.get(e.code);
    if (!k) return false;
    this.lift(e.code, k);
    return true;
  }

  /** typed is text that a key did not make alone: an IME, a phone's keyboard. */
  typed(text: string): void {
    if (!text) return;
    this.letGo((code) => code in modifiers);
    this.hands.text(text);
  }

  /** tap presses a key, or some together, and lets go of them. */
  tap(...codes: string[]): void {
    const keys = codes.map(keyOf);
    for (const k of keys) this.hands.key(k, true);
    for (const k of keys.reverse()) this.hands.key(k, false);
  }

  /** release lets go of everything: the window has lost the focus. */
  release(): void {
    this.letGo(() => true);
  }

  /** forget: the desktop has let go of everything by itself. */
  forget(): void {
    this.down.clear();
  }

  private altGraph(e: Stroke): boolean {
    const control = this.down.get('ControlLeft');
    if (control && e.timeStamp - this.controlAt <= phantom) this.lift('ControlLeft', control);
    return true;
  }

  private write(e: Stroke): void {
    const third = e.getModifierState('AltGraph') || (this.mac && e.altKey && !e.ctrlKey && !e.metaKey && written(e.code, e.shiftKey) !== e.key);
    if (!third && (e.ctrlKey || e.altKey || e.metaKey)) {
      this.chord(e);
      return;
    }
    const numpad = e.code.startsWith('Numpad');
    const same = !third && (numpad ? homeOf(e.key) !== '' && !shifted(e.key) : written(e.code, e.shiftKey) === e.key);
    if (this.plain || (same && (this.layout === '' || this.layout === 'us'))) {
      if (this.down.has(e.code)) return; // the desktop repeats keys that are held
      this.modify(e);
      const code = numpad && !this.plain ? homeOf(e.key) : e.code;
      this.press(e.code, { sym: keysym(e.key), code: place(code) });
      return;
    }
    this.typed(e.key);
  }

  /** chord presses a key with control, alt or super: Z is Z wherever it is on the person's keyboard. */
  private chord(e: Stroke): void {
    if (this.down.has(e.code)) return;
    this.modify(e);
    const lower = e.key.toLowerCase();
    const plainLayout = this.layout === '' || this.layout === 'us';
    const home = plainLayout && !this.plain ? homeOf(lower) : '';
    this.press(e.code, { sym: keysym(e.key), code: place(home || e.code) });
  }

  /** modify presses the modifiers that text had let go of, and lets go of ones whose end was missed. */
  private modify(e: Stroke): void {
    const want: [boolean, string][] = [
      [e.shiftKey, 'Shift'], [e.ctrlKey && !e.getModifierState('AltGraph'), 'Control'], [e.altKey && !e.getModifierState('AltGraph'), 'Alt'], [e.metaKey, 'Meta'],
    ];
    for (const [on, name] of want) {
      const left = `${name}Left`;
      const right = `${name}Right`;
      const has = this.down.has(left) || this.down.has(right);
      if (on && !has) this.press(left, modifier(left));
      if (!on && has) this.letGo((code) => code === left || code === right);
    }
  }

  private press(code: string, k: Key): void {
    this.down.set(code, k);
    this.hands.key(k, true);
  }

  private lift(code: string, k: Key): void {
    this.down.delete(code);
    this.hands.key(k, false);
  }

  private letGo(which: (code: string) => boolean): void {
    for (const [code, k] of [...this.down].reverse()) if (which(code)) this.lift(code, k);
  }
}

const shifted = (char: string): boolean => written(homeOf(char), false) !== char;
