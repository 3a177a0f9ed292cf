/** What is shown: gliding, standing, jumping, and between states that arrived. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { newSample } from "../src/client/types.js";
import { Replica } from "../src/replica/replicas.js";
import { Smoother, turn } from "../src/replica/show.js";
import { Packet } from "../src/wire/packet.js";
import { Schema, SchemaError, difference } from "../src/wire/schema.js";

const SCHEMA = Schema.parse(
  "thing: max_speed=40 fall=0\n" +
    "thing.at: Place { dims: 2, precision: 0.5, extent: 1000.0, motion: true } role=Place floor=0\n" +
    "thing.yaw: Angle { steps: 360 } role=Yaw floor=0\n",
);
const ROUND = 50_000;

/** A state at x (in steps), moving by this many steps per round. */
function push(replica: Replica, tick: number, x: number, options: { by?: number; yaw?: number; jumped?: boolean } = {}): void {
  const packet = new Packet();
  packet.lanes.set([0, 0, x, 0, options.yaw ?? 0], packet.room(5));
  packet.moved[0] = options.by ?? 0;
  packet.ticks[0] = 1;
  packet.jumped[0] = options.jumped === true ? 1 : 0;
  replica.states.push(tick, packet, 0);
}

function thing(tick: number, x: number, by = 0): Replica {
  const replica = new Replica(1n, SCHEMA.kinds[0], 0, tick);
  push(replica, tick, x, { by });
  return replica;
}

test("prediction runs on between rounds, and stands where it was frozen", () => {
  const [replica, smoother, out] = [thing(10, 100, 4), new Smoother("predict", ROUND), newSample()];
  assert.ok(smoother.sample(replica, 10.5 * ROUND, out));
  assert.deepEqual([out.place[0], out.staleness, out.frozen], [(100 + 2) * 0.5, 25, false]);
  replica.life = "frozen";
  replica.noticed = 12;
  smoother.sample(replica, 30 * ROUND, out);
  assert.deepEqual([out.place[0], out.frozen], [(100 + 8) * 0.5, true]);
});

test("after an update the shown place glides to the new one by half-lives", () => {
  const [replica, smoother, out] = [thing(10, 100), new Smoother("predict", ROUND), newSample()];
  smoother.sample(replica, 10 * ROUND, out);
  push(replica, 11, 108);
  smoother.sample(replica, 10 * ROUND, out);
  assert.equal(out.place[0], 50, "nothing moves in no time");
  assert.equal(out.shownError, 4);
  smoother.sample(replica, 10 * ROUND + 100_000, out);
  assert.ok(Math.abs(out.place[0] - 52) < 1e-9 && !out.jumped);
  smoother.sample(replica, 10 * ROUND + 2_000_000, out);
  assert.ok(Math.abs(out.place[0] - 54) < 1e-4);
});

test("a jump is drawn at once, and said so once, even if an update follows it", () => {
  for (const show of ["predict", "interpolate"] as const) {
    const [replica, smoother, out] = [thing(10, 100), new Smoother(show, ROUND), newSample()];
    smoother.sample(replica, 10 * ROUND, out);
    push(replica, 11, 900, { jumped: true });
    push(replica, 12, 902);
    smoother.sample(replica, 12 * ROUND, out);
    assert.ok(out.jumped, show);
    smoother.sample(replica, 40 * ROUND, out);
    assert.deepEqual([out.place[0], out.jumped], [451, false]);
  }
});

test("interpolation lies between two states, and does not cross a jump", () => {
  const [replica, smoother, out] = [thing(10, 100), new Smoother("interpolate", ROUND), newSample()];
  push(replica, 20, 110, { yaw: 90 });
  push(replica, 30, 800, { jumped: true });
  const at = (tick: number): number => {
    smoother.sample(replica, tick * ROUND + smoother.delay, out);
    return out.place[0];
  };
  assert.equal(at(10), 50);
  assert.ok(Math.abs(at(15) - 52.5) < 1e-6 && Math.abs(out.yaw - Math.PI / 4) < 1e-6);
  assert.equal(at(25), 55, "it stands until the tick of the jump");
  assert.equal(at(30), 400);
  assert.ok(smoother.delay <= 500_000);
});

test("interpolation does not cross a jump that is too short to be marked as one", () => {
  const [replica, smoother, out] = [thing(10, 100), new Smoother("interpolate", ROUND), newSample()];
  push(replica, 12, 160);
  for (const [tick, place] of [[11, 50], [12, 80]]) {
    smoother.sample(replica, tick * ROUND + smoother.delay, out);
    assert.equal(out.place[0], place);
  }
});

test("interpolation goes on as predicted while nothing is said, and neither leaps nor steps back", () => {
  const [replica, smoother, out] = [thing(0, 100, 4), new Smoother("interpolate", ROUND), newSample()];
  // A state of an avatar that walks straight is sent every forty rounds. A frame takes a fifth of a round.
  let last = -1;
  for (let frame = 50; frame < 1_000; frame++) {
    if (frame % 200 === 0) push(replica, frame / 5, 100 + (4 * frame) / 5, { by: 4 });
    smoother.sample(replica, (frame / 5) * ROUND, out);
    const step = out.place[0] - last;
    if (last >= 0) assert.ok(step > 0 && step < 1, `frame ${frame}: ${last} and ${out.place[0]}`);
    last = out.place[0];
  }
});

test("angles turn by the shorter way", () => {
  assert.ok(Math.abs(turn(3, -3) - (2 * Math.PI - 6)) < 1e-12);
  assert.ok(Math.abs(turn(-3, 3) + (2 * Math.PI - 6)) < 1e-12);
});

test("schemas that make no sense are refused by name", () => {
  const wrong = [
    "thing.at: Angle { steps: 240 } role=Yaw floor=0\n",
    "a: max_speed=-1 fall=0\n",
    "a: max_speed=1 fall=0\na: max_speed=1 fall=0\n",
    "a: max_speed=1 fall=0\na.b: Angle { steps: 1 } role=Plain floor=0\n",
    "a: max_speed=1 fall=0\na.b: Angle { steps: 240 } role=Place floor=0\n",
    "a: max_speed=1 fall=0\na.b: Number { precision: 0.0, min: 0.0, max: 1.0 } role=Plain floor=0\n",
    "a: max_speed=1 fall=0\na.b: Text { max: 9000 } role=Plain floor=0\n",
    "a: max_speed=1 fall=0\na.b: List { item: List { item: Text { max: 512 }, max: 128 }, max: 128 } role=Plain floor=0\n",
    "a: max_speed=1 fall=0\na.b: Optional(Optional( role=Plain floor=0\n",
    "nonsense",
  ];
  for (const text of wrong) assert.throws(() => Schema.parse(text), SchemaError, text);
});

test("the first line in which two schemas differ is named", () => {
  assert.equal(difference("a\nb\n", "a\nb\n"), "");
  assert.match(difference("a\nb\n", "a\nc\n"), /line 2: here 'b', there 'c'/);
  assert.match(difference("a\n", "a\nb\n"), /line 2: here 'nothing', there 'b'/);
});
