/** The arena's movement, the own avatar's rule and ways of units, against `vectors/arena.json`, to the last bit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CollisionMap, Ways, arenaGame, parseArena, readControls, step, writeControls } from "../src/arena/index.js";
import type { ArenaDocument, Body, Point } from "../src/arena/index.js";
import { Reader, Writer } from "../src/session/postcard.js";
import { cases } from "./files.js";

interface Case {
  map: ArenaDocument;
  bodies?: number[][];
  walk?: number[][];
  start?: [number, number, number, number];
  avatar?: { tick: number; controls: number[]; lanes: number[] }[];
  before?: number[];
  schema?: string;
  units?: { from: Point; target: number; since: number; seen: [number, number, number][] }[];
}

const ALL = cases<Case>("arena");

function stepped(map: CollisionMap, [x, y, vx, vy]: number[], [forward, strafe, yaw]: number[]): number[] {
  const body: Body = { x, y, vx, vy };
  step(map, body, { forward, strafe, yaw });
  return [body.x, body.y, body.vx, body.vy];
}

test("any body, sound or not, is where the server has it a tick later", () => {
  let steps = 0;
  for (const one of ALL) {
    const map = new CollisionMap(parseArena(one.map));
    for (const row of one.bodies ?? []) {
      assert.deepEqual(stepped(map, row.slice(0, 4), row.slice(4, 7)), row.slice(7));
      steps++;
    }
  }
  assert.ok(steps >= 1_000);
});

test("long walks along walls and into corners end where the server's do", () => {
  let [steps, slid] = [0, 0];
  for (const one of ALL) {
    const map = new CollisionMap(one.map);
    let body: number[] = one.start ?? [];
    for (const row of one.walk ?? []) {
      const before = body;
      body = stepped(map, body, row.slice(0, 3));
      assert.deepEqual(body, row.slice(3));
      assert.ok(map.isFree(body[0], body[1]));
      steps++;
      if (before[0] + Math.round(body[2] / 256) !== body[0]) slid++;
    }
  }
  assert.ok(steps >= 3_000 && slid > 100, `${steps} steps, ${slid} of them along walls`);
});

test("the own avatar is predicted lane by lane, weapons and reins included", () => {
  for (const one of ALL.filter((one) => one.avatar !== undefined)) {
    const game = arenaGame(one.schema ?? "", one.map);
    let state: Int32Array = Int32Array.from(one.before ?? []);
    for (const { tick, controls, lanes } of one.avatar ?? []) {
      const input = readControls(new Reader(Uint8Array.from(controls)));
      const out = new Writer();
      writeControls(input, out);
      assert.deepEqual([...out.view()], controls);
      state = game.predict?.(state.slice(), input, tick) ?? state;
      assert.deepEqual([...state], lanes, `tick ${tick}`);
    }
  }
});

test("units are where the server has them, to the last bit", () => {
  let seen = 0;
  for (const one of ALL) {
    const ways = new Ways(one.map);
    for (const unit of one.units ?? []) {
      for (const [tick, x, y] of unit.seen) {
        assert.deepEqual(ways.unitAt(unit.from, unit.target, unit.since, tick).at, [x, y]);
        seen++;
      }
    }
  }
  assert.ok(seen >= 400);
});

test("what is no arena is refused", () => {
  const sound = ALL[0].map;
  for (const wrong of [null, 3, {}, { ...sound, side: 1e9 }, { ...sound, nodes: [] }, { ...sound, edges: [[0, 1e6]] }]) {
    assert.throws(() => parseArena(wrong), { name: "ArenaError" });
  }
});
