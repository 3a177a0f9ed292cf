import assert from "node:assert/strict";
import test from "node:test";
import { betweenAngles, lessThanBroadcast, Model, PAST } from "../src/observatory/model.js";
import type { Figures, Replica } from "../src/observatory/protocol.js";

const world = (x: number, ids = ["1"]) => ({
  type: "world" as const,
  tick: 1,
  objects: ids.map((id): [string, number, number, number, number] => [id, 0, x, 0, 0]),
});

test("what moves runs on from where it was, what jumps does not", () => {
  const model = new Model();
  model.apply(world(1), 0);
  model.apply(world(2), 100);
  assert.equal(model.truth.get("1")!.fromX, 1);
  model.apply(world(50), 200);
  assert.equal(model.truth.get("1")!.fromX, 50);
});

test("what is no longer told of is gone", () => {
  const model = new Model();
  model.apply(world(1, ["1", "2"]), 0);
  model.apply(world(1, ["2"]), 100);
  assert.deepEqual([...model.truth.keys()], ["2"]);
});

test("an observer that was picked before does not come back", () => {
  const model = new Model();
  const replica: Replica = ["9", 0, 0, 0, 0, 0, 0, 0, 0];
  const observer = (player: number) => ({
    type: "observer" as const,
    player,
    tick: 1,
    view: { policy: "broadcast" as const },
    policy: "broadcast",
    pivots: [],
    budget: null,
    replicas: [replica],
  });
  model.pick(3);
  model.apply(observer(3), 0);
  assert.equal(model.replicas.size, 1);
  model.pick(4);
  model.apply(observer(3), 10);
  assert.equal(model.replicas.size, 0);
});

test("the past has an end", () => {
  const model = new Model();
  const figures = { type: "figures", observers: [] } as unknown as Figures;
  for (let i = 0; i < PAST + 20; i += 1) model.apply(figures, i);
  assert.equal(model.past.length, PAST);
});

test("what is saved is told with what it was measured on", () => {
  const told = (broadcast: Figures["broadcast"]) => lessThanBroadcast({ broadcast } as Figures);
  assert.deepEqual(told({ samples: 3, bytes_s: 850, ratio: 8.5 }), [
    "8.5×",
    "less than broadcast, measured on 3 sampled players",
  ]);
  assert.deepEqual(told({ samples: 1, bytes_s: 0, ratio: null }), [
    "–",
    "less than broadcast, measured on 1 sampled player",
  ]);
  assert.deepEqual(told(null), ["…", "less than broadcast, measuring"]);
});

test("angles turn the shorter way", () => {
  assert.ok(Math.abs(betweenAngles(3, -3, 0.5) - Math.PI) < 0.01);
  assert.equal(betweenAngles(0, 1, 0.5), 0.5);
});
