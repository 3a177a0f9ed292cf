import assert from 'node:assert/strict';
import test from 'node:test';
import { Reader, Writer } from '@foveate/client';
import { decodeEvent, encodeAction, encodeControls } from '../src/play/rules/messages.js';
import { untilTarget, untilWall } from '../src/play/rules/trace.js';
import { angleOf, walkTowards, yawOf } from '../src/play/rules/walk.js';
import { ticksLeft } from '../src/play/rules/weapons.js';

test('controls are the bytes that the rules read', () => {
  const walk = { forward: 127, strafe: -1, yaw: 300 };
  // A byte each for the keys, 300 as a varint; an option; the hands.
  assert.deepEqual(
    [...encodeControls({ walk, fire: null, hands: { weapon: 2 } })],
    [0x7f, 0xff, 0xac, 0x02, 0, 2],
  );
  assert.deepEqual(
    [...encodeControls({ walk, fire: 5, hands: { unit: 1 } })],
    [0x7f, 0xff, 0xac, 0x02, 1, 5, 3, 1],
  );
});

test('actions are the bytes that the rules read', () => {
  const writer = new Writer();
  encodeAction({ type: 'order', target: 200 }, writer);
  encodeAction({ type: 'stay' }, writer);
  assert.deepEqual([...writer.finish()], [6, 0xc8, 0x01, 8]);
});

test('events are read; what is none is refused', () => {
  const shot = decodeEvent(new Reader(Uint8Array.of(0, 7, 0, 2, 0x80, 0x02, 10, 1)));
  assert.deepEqual(shot, {
    type: 'shot',
    player: 7,
    unit: 0,
    weapon: 2,
    yaw: Math.PI / 2,
    length: 2.5,
    hits: 1,
  });
  assert.throws(() => decodeEvent(new Reader(Uint8Array.of(77))));
});

test('keys mean directions on the screen, wherever one looks', () => {
  for (const aim of [0, 1, 2.5, -2]) {
    const walk = walkTowards(0, 1, aim);
    const facing = angleOf(walk.yaw);
    const along = walk.forward * Math.cos(facing) - walk.strafe * Math.sin(facing);
    const up = walk.forward * Math.sin(facing) + walk.strafe * Math.cos(facing);
    assert.ok(Math.abs(along) < 1.5 && Math.abs(up - 127) < 1.5);
  }
});

test('two keys at once are no faster', () => {
  const walk = walkTowards(1, 1, 0);
  assert.ok(Math.hypot(walk.forward, walk.strafe) < 128);
});

test('facings are whole parts of a turn', () => {
  assert.equal(yawOf(Math.PI / 2), 16_384);
  assert.equal(yawOf(-Math.PI / 2), 49_152);
  assert.equal(yawOf(0.001) % 64, 0);
  assert.equal(yawOf(2 * Math.PI), 0);
});

test('walls stop shots, behind the shooter they do not', () => {
  const map = { side: 100, obstacles: [[10, -5, 20, -5, 20, 5, 10, 5]] };
  assert.equal(untilWall(map, { x: 0, y: 0, angle: 0, reach: 36 }), 10);
  assert.equal(untilWall(map, { x: 0, y: 0, angle: Math.PI, reach: 36 }), 36);
  assert.equal(untilWall(map, { x: 0, y: 6, angle: 0, reach: 36 }), 36);
  const clockwise = { side: 100, obstacles: [[10, 5, 20, 5, 20, -5, 10, -5]] };
  assert.equal(untilWall(clockwise, { x: 0, y: 0, angle: 0, reach: 36 }), 10);
});

test('a shot ends at the first target on its line', () => {
  const ray = { x: 0, y: 0, angle: 0, reach: 36 };
  const targets = [
    { x: 20, y: 0 },
    { x: 10, y: 0 },
    { x: 5, y: 2 },
    { x: -5, y: 0 },
  ];
  assert.deepEqual(untilTarget(ray, targets), { length: 9, hit: true });
  assert.deepEqual(untilTarget(ray, []), { length: 36, hit: false });
});

test('times wrap, and what lies too far ahead is over', () => {
  assert.equal(ticksLeft(2, 65_535, 32), 3);
  assert.equal(ticksLeft(100, 100, 32), 0);
  assert.equal(ticksLeft(50, 100, 32), 0);
});
