/** Where keys are and what they mean: KeyboardEvent.code and .key as scancodes and keysyms. */
import type { Key } from './wire';

/** Places by KeyboardEvent.code: set-1 scancodes, 0x80 added for those with an 0xe0 before them. */
const places: Record<string, number> = {};

const lay = (first: number, names: string) => names.split(' ').forEach((name, i) => (places[name] = first + i));

lay(0x01, 'Escape Digit1 Digit2 Digit3 Digit4 Digit5 Digit6 Digit7 Digit8 Digit9 Digit0 Minus Equal Backspace Tab');
lay(0x10, 'KeyQ KeyW KeyE KeyR KeyT KeyY KeyU KeyI KeyO KeyP BracketLeft BracketRight Enter ControlLeft');
lay(0x1e, 'KeyA KeyS KeyD KeyF KeyG KeyH KeyJ KeyK KeyL Semicolon Quote Backquote ShiftLeft Backslash');
lay(0x2c, 'KeyZ KeyX KeyC KeyV KeyB KeyN KeyM Comma Period Slash ShiftRight NumpadMultiply AltLeft Space CapsLock');
lay(0x3b, 'F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 NumLock ScrollLock Numpad7 Numpad8 Numpad9 NumpadSubtract');
lay(0x4b, 'Numpad4 Numpad5 Numpad6 NumpadAdd Numpad1 Numpad2 Numpad3 Numpad0 NumpadDecimal');
lay(0x56, 'IntlBackslash F11 F12 NumpadEqual');
lay(0x70, 'KanaMode');
lay(0x73, 'IntlRo');
lay(0x79, 'Convert');
lay(0x7b, 'NonConvert');
lay(0x7d, 'IntlYen NumpadComma');
lay(0x9c, 'NumpadEnter ControlRight');
lay(0xb5, 'NumpadDivide');
lay(0xb7, 'PrintScreen AltRight');
lay(0xc6, 'Pause Home ArrowUp PageUp');
lay(0xcb, 'ArrowLeft');
lay(0xcd, 'ArrowRight');
lay(0xcf, 'End ArrowDown PageDown Insert Delete');
lay(0xdb, 'MetaLeft MetaRight ContextMenu');

/** place is the scancode of a key; 0: it has none. */
export const place = (code: string): number => places[code] ?? 0;

/** Meanings by KeyboardEvent.key that are no characters: keysym, and the place where it is. */
const named: Record<string, [sym: number, code: string]> = {
  Backspace: [0xff08, 'Backspace'], Tab: [0xff09, 'Tab'], Enter: [0xff0d, 'Enter'], Escape: [0xff1b, 'Escape'],
  Delete: [0xffff, 'Delete'], Insert: [0xff63, 'Insert'], Home: [0xff50, 'Home'], End: [0xff57, 'End'],
  PageUp: [0xff55, 'PageUp'], PageDown: [0xff56, 'PageDown'],
  ArrowLeft: [0xff51, 'ArrowLeft'], ArrowUp: [0xff52, 'ArrowUp'], ArrowRight: [0xff53, 'ArrowRight'], ArrowDown: [0xff54, 'ArrowDown'],
  Pause: [0xff13, 'Pause'], PrintScreen: [0xff61, 'PrintScreen'], ScrollLock: [0xff14, 'ScrollLock'], ContextMenu: [0xff67, 'ContextMenu'],
  Convert: [0xff23, 'Convert'], NonConvert: [0xff22, 'NonConvert'], KanaMode: [0xff27, 'KanaMode'], Clear: [0xff0b, ''],
};
for (let i = 1; i <= 12; i++) named[`F${i}`] = [0xffbd + i, `F${i}`];

/** Modifiers, by code: their keysym. */
export const modifiers: Record<string, number> = {
  ShiftLeft: 0xffe1, ShiftRight: 0xffe2, ControlLeft: 0xffe3, ControlRight: 0xffe4,
  AltLeft: 0xffe9, AltRight: 0xffea, MetaLeft: 0xffeb, MetaRight: 0xffec,
};

/** modifier is a modifier's key. */
export const modifier = (code: string): Key => ({ sym: modifiers[code] ?? 0, code: place(code) });

/** keysym is that of a character. */
export function keysym(char: string): number {
  const cp = char.codePointAt(0) ?? 0;
  return (cp >= 0x20 && cp <= 0x7e) || (cp >= 0xa0 && cp <= 0xff) ? cp : 0x0100_0000 | cp;
}

/** character says whether KeyboardEvent.key is one, and not a name. */
export const character = (key: string): boolean => key !== '' && [...key].length === 1;

/** What a US keyboard writes: by code, without and with shift. */
const us: Record<string, string> = { Space: '  ' };
const write = (codes: string, plain: string, shifted: string) => codes.split(' ').forEach((code, i) => (us[code] = plain.charAt(i) + shifted.charAt(i)));

write('Backquote Digit1 Digit2 Digit3 Digit4 Digit5 Digit6 Digit7 Digit8 Digit9 Digit0 Minus Equal', '`1234567890-=', '~!@#$%^&*()_+');
write('BracketLeft BracketRight Backslash Semicolon Quote Comma Period Slash', "[]\\;',./", '{}|:"<>?');
for (const c of 'abcdefghijklmnopqrstuvwxyz') us[`Key${c.toUpperCase()}`] = c + c.toUpperCase();

/** written is what a key of a US keyboard writes; empty: nothing. */
export const written = (code: string, shift: boolean): string => us[code]?.charAt(shift ? 1 : 0) ?? '';

const byChar: Record<string, string> = {};
for (const [code, chars] of Object.entries(us)) for (const c of chars) byChar[c] ??= code;

/** homeOf is the code of the US key that writes a character; empty: none does. */
export const homeOf = (char: string): string => byChar[char] ?? '';

/**
 * meant is the key of a name that is no character. The number pad's keys go by what
 * they mean, so that the lock of the viewer's keyboard counts and not the guest's.
 */
export function meant(key: string, code: string): Key | null {
  const m = named[key];
  if (m) return { sym: m[0], code: code === 'NumpadEnter' ? place(code) : place(m[1] || code) };
  return modifiers[code] ? modifier(code) : null;
}

/** The chords of the menu, for keys that browsers or systems keep to themselves. */
export const chords: { name: string; codes: string[] }[] = [
  { name: 'Ctrl + Alt + Del', codes: ['ControlLeft', 'AltLeft', 'Delete'] },
  { name: 'Alt + Tab', codes: ['AltLeft', 'Tab'] },
  { name: 'Alt + F4', codes: ['AltLeft', 'F4'] },
  { name: 'Super', codes: ['MetaLeft'] },
  { name: 'Escape', codes: ['Escape'] },
  { name: 'Ctrl + Esc', codes: ['ControlLeft', 'Escape'] },
  { name: 'Ctrl + W', codes: ['ControlLeft', 'KeyW'] },
  { name: 'Ctrl + T', codes: ['ControlLeft', 'KeyT'] },
  { name: 'Print Screen', codes: ['PrintScreen'] },
  { name: 'Ctrl + Alt + F1', codes: ['ControlLeft', 'AltLeft', 'F1'] },
  { name: 'Ctrl + Alt + F7', codes: ['ControlLeft', 'AltLeft', 'F7'] },
];

/** keyOf is the key of a code alone, as on a US keyboard. */
export function keyOf(code: string): Key {
  const char = written(code, false);
  if (char) return { sym: keysym(char), code: place(code) };
  return meant(code, code) ?? { sym: 0, code: place(code) };
}
