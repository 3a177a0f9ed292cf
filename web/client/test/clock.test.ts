/** The server's clock, seen from here. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Clock } from "../src/client/clock.js";

const ROUND = 50_000;

test("the clock follows a server that stood still", () => {
  const clock = new Clock();
  const hear = (from: number, to: number, late: number): void => {
    for (let tick = from; tick < to; tick++) clock.learn(tick * ROUND, tick * ROUND + late, ROUND);
  };
  hear(0, 100, 30_000);
  // Three seconds in which nothing happens at the server, nor is made up for.
  hear(100, 200, 3_030_000);
  const now = 200 * ROUND + 3_030_000;
  assert.ok(clock.time(now, 0) <= 200 * ROUND, `${clock.time(now, 0) / ROUND} is shown of 200`);
});

test("a few packets that are late do not set it back", () => {
  const clock = new Clock();
  for (let tick = 0; tick < 400; tick++) clock.learn(tick * ROUND, tick * ROUND + (tick % 10 === 0 ? 30_000 : 200_000), ROUND);
  const now = 400 * ROUND + 30_000;
  assert.ok(Math.abs(clock.time(now, 0) - 400 * ROUND) < 1_000);
});
