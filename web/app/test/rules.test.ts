import assert from "node:assert/strict";
import test from "node:test";
import { untilTarget, untilWall } from "../src/play/rules/trace.js";
import { walkTowards } from "../src/play/rules/walk.js";
import { ticksLeft } from "../src/play/rules/weapons.js";

test("keys mean directions on the screen, wherever one looks", () => {
  for (const aim of [0, 1, 2.5, -2]) {
    const walk = walkTowards(0, 1, aim);
    const facing = (walk.yaw / 65_536) * 2 * Math.PI;
    const along = walk.forward * Math.cos(facing) - walk.strafe * Math.sin(facing);
    const up = walk.forward * Math.sin(facing) + walk.strafe * Math.cos(facing);
    assert.ok(Math.abs(along) < 1.5 && Math.abs(up - 127) < 1.5);
  }
});

test("two keys at once are no faster", () => {
  const walk = walkTowards(1, 1, 0);
  assert.ok(Math.hypot(walk.forward, walk.strafe) < 128);
});

test("walls stop shots, behind the shooter they do not", () => {
  const map = { side: 100, obstacles: [[10, -5, 20, -5, 20, 5, 10, 5]] };
  assert.equal(untilWall(map, { x: 0, y: 0, angle: 0, reach: 36 }), 10);
  assert.equal(untilWall(map, { x: 0, y: 0, angle: Math.PI, reach: 36 }), 36);
  assert.equal(untilWall(map, { x: 0, y: 6, angle: 0, reach: 36 }), 36);
  const clockwise = { side: 100, obstacles: [[10, 5, 20, 5, 20, -5, 10, -5]] };
  assert.equal(untilWall(clockwise, { x: 0, y: 0, angle: 0, reach: 36 }), 10);
});

test("a shot ends at the first target on its line", () => {
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

test("times wrap, and what lies too far ahead is over", () => {
  assert.equal(ticksLeft(2, 65_535, 32), 3);
  assert.equal(ticksLeft(100, 100, 32), 0);
  assert.equal(ticksLeft(50, 100, 32), 0);
});
