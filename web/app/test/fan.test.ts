import assert from "node:assert/strict";
import test from "node:test";
import { fan, type Sector } from "../src/observatory/fan.js";

const area = (sectors: Sector[]): number =>
  sectors.reduce((sum, s) => sum + ((s.outer ** 2 - s.inner ** 2) * (s.to - s.from)) / 2, 0);

test("zones and fields cover the whole circle once", () => {
  const view = {
    policy: "vfc" as const,
    zones: [40, 70, null],
    fields: [100, 140, 360],
    kappa: [],
  };
  const { sectors } = fan(view, 200);
  assert.equal(sectors.length, 3 * 5);
  assert.ok(Math.abs(area(sectors) - Math.PI * 200 ** 2) < 1e-6);
});

test("a cell is looser the farther out and the farther aside it lies", () => {
  const { sectors } = fan({ policy: "vfc", zones: [40, 70, 100], fields: [100, 360] }, 200);
  const at = (distance: number, angle: number): number =>
    sectors.find((s) => s.inner <= distance && distance < s.outer && s.from <= angle && angle < s.to)!.strictness;
  assert.ok(at(10, 0) > at(50, 0) && at(50, 0) > at(90, 0));
  assert.ok(at(10, 0) > at(10, 3) && at(10, 3) === at(10, -3));
});

test("zones beyond the reach are not drawn twice", () => {
  const { sectors } = fan({ policy: "vfc", zones: [40, 300, 600, null], fields: [360] }, 200);
  assert.deepEqual(
    sectors.map((s) => [s.inner, s.outer]),
    [
      [0, 40],
      [40, 200],
    ],
  );
});

test("A3 is the critical circle and the field of view around it", () => {
  const { sectors } = fan({ policy: "a3", view: 120, critical: 40, field: 180 }, 500);
  assert.equal(sectors[0]!.outer, 40);
  assert.ok(Math.abs(area(sectors) - (Math.PI * 40 ** 2 + (Math.PI * (120 ** 2 - 40 ** 2)) / 2)) < 1e-6);
});

test("broadcast has no shape", () => {
  assert.deepEqual(fan({ policy: "broadcast" }, 100), {
    sectors: [],
    squares: null,
    everything: true,
  });
});
