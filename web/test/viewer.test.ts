import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lines, marks, words } from '../src/viewer/activity';
import { homeOf, keyOf, keysym, meant, place, written } from '../src/viewer/keys';
import { Keyboard, type Stroke } from '../src/viewer/keyboard';
import { asleep, over, pause } from '../src/viewer/link';
import { buttonsOf, toScreen, Wheel } from '../src/viewer/pointer';
import { chapterAt, moment } from '../src/viewer/reel';
import { failure, fragment, servers } from '../src/viewer/rtc';
import { Touch } from '../src/viewer/touch';
import { parts, Pen, read, tiles } from '../src/viewer/wire';
import { Problem } from '../src/common/api';

const hex = (b: ArrayBuffer): string => Buffer.from(b).toString('hex');
const raw = (s: string): ArrayBuffer => new Uint8Array(Buffer.from(s, 'hex')).buffer;

test('messages of a viewer', () => {
  const pen = new Pen();
  assert.equal(hex(pen.move({ x: 258, y: 3 })), '01' + '00000001' + '01020003');
  assert.equal(hex(pen.buttons({ x: 1, y: 2 }, 5)), '02' + '00000002' + '00010002' + '0005');
  assert.equal(hex(pen.key({ sym: 0xff51, code: 0xcb }, true)), '03' + '00000003' + '0000ff51' + '000000cb' + '01');
  assert.equal(hex(pen.scroll({ x: 0, y: 0 }, { x: -120, y: 240 })), '04' + '00000004' + '00000000' + 'ff8800f0');
  assert.deepEqual(pen.text('ß').map(hex), ['05' + '00000005' + 'c39f']);
  assert.equal(hex(pen.release()), '0600000006');
  assert.equal(hex(pen.keyframe()), '0700000007');
  assert.equal(hex(pen.clip('a') ?? raw('')), '09' + '00000008' + '61');
  assert.equal(pen.clip('x'.repeat(60_001)), null);
  assert.equal(hex(pen.move({ x: -5, y: 70_000 })).slice(10), '0000ffff');
});

test('a text is split between characters', () => {
  const all = parts('aßb', 2).map((p) => Buffer.from(p).toString());
  assert.deepEqual(all, ['a', 'ß', 'b']);
  assert.deepEqual(parts('', 10), []);
});

test('messages of the server', () => {
  assert.deepEqual(read(raw('1100050006')), { kind: 'place', at: { x: 5, y: 6 } });
  assert.deepEqual(read(raw('1000010002')), { kind: 'look', hot: { x: 1, y: 2 }, png: null });
  assert.deepEqual(read(raw('1200000007' + Buffer.from('control_held\0no').toString('hex'))), { kind: 'refused', seq: 7, code: 'control_held', text: 'no' });
  const p = read(raw('01' + '01' + '0001' + '000003e8' + '000007d0' + 'aabb'));
  assert.ok(p?.kind === 'picture' && p.key && p.level === 1 && p.at === 1000 && p.took === 2000 && p.data.length === 2);
  for (const bad of ['', '01', '10', '12', '63']) assert.equal(read(raw(bad)), null);
});

test('a picture of tiles', () => {
  const two = new Uint8Array(raw('0001' + '0002' + '00000001' + 'ff' + '0003' + '0004' + '00000002' + 'eeee'));
  assert.deepEqual(tiles(two).map((t) => [t.x, t.y, t.jpeg.length]), [[1, 2, 1], [3, 4, 2]]);
  assert.equal(tiles(two.subarray(0, 18)).length, 1, 'one that is cut off is left out');
});

test('keys', () => {
  assert.equal(place('Escape'), 1);
  assert.equal(place('KeyM'), 0x32);
  assert.equal(place('F12'), 0x58);
  assert.equal(place('Delete'), 0xd3);
  assert.equal(place('ControlRight'), 0x9d);
  assert.equal(place('Nowhere'), 0);
  assert.equal(keysym('a'), 0x61);
  assert.equal(keysym('ß'), 0xdf);
  assert.equal(keysym('日'), 0x0100_65e5);
  assert.equal(written('Digit2', true), '@');
  assert.equal(homeOf('@'), 'Digit2');
  assert.deepEqual(meant('Home', 'Numpad7'), { sym: 0xff50, code: 0xc7 });
  assert.deepEqual(meant('Enter', 'NumpadEnter'), { sym: 0xff0d, code: 0x9c });
  assert.deepEqual(keyOf('Delete'), { sym: 0xffff, code: 0xd3 });
});

/** board is a keyboard, and what came of it. */
function board(layout = '', mac = false) {
  const said: string[] = [];
  const b = new Keyboard({ key: (k, down) => said.push(`${down ? '+' : '-'}${k.sym.toString(16)}@${k.code.toString(16)}`), text: (t) => said.push(`“${t}”`) }, mac);
  b.layout = layout;
  let time = 0;
  const stroke = (key: string, code: string, mods = '', more: Partial<Stroke> = {}): Stroke => ({
    key, code, ctrlKey: mods.includes('c'), altKey: mods.includes('a'), shiftKey: mods.includes('s'), metaKey: mods.includes('m'), timeStamp: (time += 100),
    getModifierState: (name) => name === 'AltGraph' && mods.includes('g'), ...more,
  });
  return { b, said, down: (...a: Parameters<typeof stroke>) => b.pressed(stroke(...a)), up: (...a: Parameters<typeof stroke>) => b.released(stroke(...a)) };
}

test('keyboard: what the desktop’s keyboard writes there goes as a key', () => {
  const { said, down, up } = board();
  assert.ok(down('a', 'KeyA'));
  assert.ok(down('a', 'KeyA', '', { repeat: true }));
  up('a', 'KeyA');
  down('Shift', 'ShiftLeft', 's');
  down('A', 'KeyA', 's');
  up('A', 'KeyA', 's');
  up('Shift', 'ShiftLeft');
  assert.deepEqual(said, ['+61@1e', '-61@1e', '+ffe1@2a', '+41@1e', '-41@1e', '-ffe1@2a']);
});

test('keyboard: German', () => {
  const { said, down, up } = board();
  down('ß', 'Minus');
  up('ß', 'Minus');
  down('z', 'KeyY');
  down('Control', 'ControlLeft', 'c', { timeStamp: 5000 });
  down('AltGraph', 'AltRight', 'ca', { timeStamp: 5001 });
  down('@', 'KeyQ', 'cag');
  up('@', 'KeyQ', 'cag');
  assert.deepEqual(said, ['“ß”', '“z”', '+ffe3@1d', '-ffe3@1d', '“@”']);
});

test('keyboard: a capital with shift lets go of shift, and takes it up again', () => {
  const { said, down } = board();
  down('Shift', 'ShiftLeft', 's');
  down('Ö', 'Semicolon', 's');
  down('ArrowLeft', 'ArrowLeft', 's');
  assert.deepEqual(said, ['+ffe1@2a', '-ffe1@2a', '“Ö”', '+ffe1@2a', '+ff51@cb']);
});

test('keyboard: the locks stay here', () => {
  const { said, down } = board();
  down('CapsLock', 'CapsLock');
  down('A', 'KeyA'); // by the lock
  down('7', 'Numpad7');
  down('Home', 'Numpad7', '', {});
  assert.deepEqual(said, ['“A”', '+37@8']);
});

test('keyboard: chords go by what they mean, letters of other scripts by their place', () => {
  const { said, down } = board();
  down('Control', 'ControlLeft', 'c');
  down('z', 'KeyY', 'c');
  down('с', 'KeyC', 'c');
  assert.deepEqual(said, ['+ffe3@1d', '+7a@2c', '+1000441@2e']);
});

test('keyboard: another layout gets text; dead keys and input methods are left to the browser', () => {
  const { said, down, b } = board('de');
  down('a', 'KeyA');
  for (const key of ['Dead', 'Process', 'Unidentified']) assert.equal(down(key, 'KeyE'), false);
  assert.equal(down('a', 'KeyA', '', { isComposing: true }), false);
  b.typed('日本');
  assert.deepEqual(said, ['“a”', '“日本”']);
});

test('keyboard: a Mac', () => {
  const { said, down, up } = board('', true);
  down('@', 'KeyL', 'a');
  down('Meta', 'MetaLeft', 'm');
  down('c', 'KeyC', 'm');
  up('Meta', 'MetaLeft'); // the end of C is never told
  assert.deepEqual(said, ['“@”', '+ffeb@db', '+63@2e', '-63@2e', '-ffeb@db']);
});

test('keyboard: releasing', () => {
  const { said, down, b } = board();
  down('Shift', 'ShiftLeft', 's');
  down('A', 'KeyA', 's');
  b.release();
  assert.deepEqual(said, ['+ffe1@2a', '+41@1e', '-41@1e', '-ffe1@2a']);
});

test('the pointer on a picture of another size', () => {
  const box = { left: 10, top: 20, width: 640, height: 400 };
  const size = { width: 1280, height: 800 };
  assert.deepEqual(toScreen({ x: 10, y: 20 }, box, size), { x: 0, y: 0 });
  assert.deepEqual(toScreen({ x: 649.9, y: 419.9 }, box, size), { x: 1279, y: 799 });
  assert.equal(toScreen({ x: 9, y: 20 }, box, size), null);
  assert.deepEqual(toScreen({ x: -100, y: 900 }, box, size, true), { x: 0, y: 799 });
  assert.equal(toScreen({ x: 0, y: 0 }, { ...box, width: 0 }, size), null);
  assert.equal(buttonsOf(1 | 2 | 4 | 8 | 16), 1 | 4 | 2 | 128 | 256);
});

test('wheels', () => {
  const w = new Wheel();
  assert.deepEqual(w.turn({ deltaX: 0, deltaY: 100, deltaMode: 0 }), { x: 0, y: 120 });
  assert.deepEqual(w.turn({ deltaX: 3, deltaY: 0, deltaMode: 1 }), { x: 120, y: 0 });
  let sum = 0;
  for (let i = 0; i < 1000; i++) sum += w.turn({ deltaX: 0, deltaY: 0.1, deltaMode: 0 })?.y ?? 0;
  assert.ok(Math.abs(sum - 120) <= 1, `slow turns are lost: ${sum}`);
});

test('fingers', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 1000;
  const said: string[] = [];
  const touch = new Touch({ move: (by, held) => said.push(`move ${by.x},${by.y} ${held}`), buttons: (held) => said.push(`buttons ${held}`), scroll: (by) => said.push(`scroll ${by.x},${by.y}`) }, () => now);
  const finger = (x: number, id = 1) => ({ id, x, y: 0 });
  touch.down([finger(0)]);
  touch.up([]);
  assert.deepEqual(said.splice(0), ['buttons 1', 'buttons 0'], 'a tap');
  now += 100;
  touch.down([finger(0)]);
  touch.move([finger(20)]);
  touch.up([]);
  assert.deepEqual(said.splice(0), ['buttons 1', 'move 20,0 1', 'buttons 0'], 'a tap, then a drag');
  now += 1000;
  touch.down([finger(0)]);
  t.mock.timers.tick(600);
  touch.up([]);
  assert.deepEqual(said.splice(0), ['buttons 4', 'buttons 0'], 'a long press');
  now += 1000;
  touch.down([finger(0)]);
  touch.down([finger(0), finger(50, 2)]);
  touch.move([finger(0), finger(50, 2)]);
  touch.move([finger(30), finger(80, 2)]);
  touch.up([]);
  assert.deepEqual(said.splice(0), ['scroll 30,0'], 'two fingers');
});

test('WHEP', () => {
  assert.deepEqual(servers('<stun:a>; rel="ice-server", <turn:b>; rel="ice-server"; username="u"; credential="c\\"d"; credential-type="password", </x>; rel="next"'), [
    { urls: 'stun:a' }, { urls: 'turn:b', username: 'u', credential: 'c"d' },
  ]);
  assert.deepEqual(servers(null), []);
  const offer = 'v=0\r\na=ice-ufrag:uu\r\na=ice-pwd:pp\r\nm=video 9 X 96\r\na=mid:0\r\n';
  assert.equal(fragment(offer, ['candidate:1'], true), 'a=ice-ufrag:uu\r\na=ice-pwd:pp\r\nm=video 9 X 96\r\na=mid:0\r\na=candidate:1\r\na=end-of-candidates\r\n');
  const stats = [
    { id: 'p', type: 'candidate-pair', localCandidateId: 'l', remoteCandidateId: 'r', state: 'failed' },
    { id: 'l', type: 'local-candidate', protocol: 'udp', address: '10.0.0.1', port: 5 },
    { id: 'r', type: 'remote-candidate', protocol: 'udp', address: '192.0.2.1', port: 6 },
  ];
  assert.equal(failure(stats), 'udp 10.0.0.1:5 to udp 192.0.2.1:6: failed');
  assert.match(failure(stats.slice(1), 'a=candidate:1 1 udp 99 192.0.2.1 6 typ host\r\n'), /no address that goes with udp 192\.0\.2\.1:6/);
  assert.match(failure([]), /named no address/);
});

test('what people are told', () => {
  assert.equal(over(new Problem(401, '', ''))?.phase, 'over');
  assert.equal(over(new Problem(404, '', ''))?.phase, 'gone');
  assert.equal(over(new Problem(0, '', '')), null);
  assert.equal(over(new Problem(503, '', '')), null);
  const d = { id: 'd', name: 'n', display: { width: 1, height: 1 } };
  assert.equal(asleep({ ...d, state: 'ready' }), null);
  assert.match(asleep({ ...d, state: 'suspended' })?.title ?? '', /suspended/);
  assert.deepEqual([0, 1, 2, 20].map(pause), [250, 500, 1000, 3000]);
  assert.equal(words({ kind: 'click', x: 1, y: 2, count: 2 }), 'double-clicked at 1, 2');
  assert.equal(words({ kind: 'text', text: 'hi' }), 'typed “hi”');
  const e = { seq: 3, time: '', type: 'input.begun', data: { kind: 'agent', actions: [{ kind: 'click', x: 1, y: 2 }, { kind: 'text', text: 'hi' }] } };
  assert.equal(lines(e)[0]?.text, 'An agent clicked at 1, 2, typed “hi”');
  assert.deepEqual(marks(e).map((m) => [m.x, m.y, m.label]), [[1, 2, undefined], [1, 2, 'hi']]);
  assert.equal(lines({ seq: 1, time: '', type: 'control.taken', data: { kind: 'person', holder: 'viewer-x' } }, 'viewer-x')[0]?.text, 'You took control');
});

test('times and chapters of a recording', () => {
  assert.deepEqual([0, 999, 61_000, 3_723_900, -5].map(moment), ['0:00', '0:00', '1:01', '1:02:03', '0:00']);
  const list = [{ at_ms: 0, title: 'start' }, { at_ms: 4000, title: 'click' }];
  assert.deepEqual([0, 3999, 4000, 9999].map((ms) => chapterAt(list, ms)), [0, 0, 1, 1]);
  assert.equal(chapterAt([], 5), -1);
});
