/** Correcting the own avatar when no state says that it is elsewhere than predicted. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Core } from "../src/client/core.js";
import type { Foresight } from "../src/client/foresight.js";
import type { GameAdapter } from "../src/client/types.js";
import { Schema } from "../src/wire/schema.js";

const SCHEMA = Schema.parse(
  "thing: max_speed=10 fall=0\nthing.at: Place { dims: 2, precision: 0.5, extent: 100.0, motion: true } role=Place floor=0\n",
);
const STEP: GameAdapter<number, never, never> = {
  encodeInput: () => Uint8Array.of(1),
  predict: (lanes, by) => {
    lanes[2] += by;
    return lanes;
  },
};

/** What a core keeps to itself. */
interface Inside {
  foresight: Foresight<number>;
  isDoubtful(seq: number, now: number): boolean;
  replicas: { applyFull(n: number, alias: number, tick: number, changed: () => void): void };
}

/** A core whose avatar stands at 0, and has predicted a step of this length. */
function standing(by: number): Inside {
  const core = new Core(STEP, SCHEMA, "predict", { change: () => {}, event: () => {} }, () => 0);
  const inside = core as unknown as Inside;
  core.replicas.packet.room(SCHEMA.kinds[0].lanes);
  inside.replicas.applyFull(0, 0, 1, () => {});
  core.avatar = [...core.replicas.all()][0].id;
  inside.foresight.begin(new Int32Array(SCHEMA.kinds[0].lanes));
  inside.foresight.foresee(by, Uint8Array.of(1), 1);
  return inside;
}

test("an avatar that rests elsewhere than was foreseen is doubted after a second, not before", () => {
  const off = standing(8);
  assert.deepEqual([0, 500, 999, 1_000].map((now) => off.isDoubtful(0, now)), [false, false, false, true]);
  assert.ok(![0, 5_000].some((now) => standing(2).isDoubtful(0, now)), "up to two steps is nothing");
  assert.ok(![0, 5_000].some((now) => off.isDoubtful(7, now)), "of what is not remembered nothing is known");
});

test("on a new link nothing is left of what was foreseen", () => {
  const { foresight } = standing(8);
  assert.equal(foresight.beforeAll, 0xffff);
  foresight.foresee(1, Uint8Array.of(1), 2);
  foresight.reconcile(0, new Int32Array(SCHEMA.kinds[0].lanes), 2);
  assert.equal(foresight.beforeAll, 0);
  foresight.restart();
  assert.deepEqual([foresight.lanes, foresight.before, foresight.after(1), foresight.beforeAll], [null, null, null, 0xffff]);
});
