/** Names: no more asked for at once than a server answers, and none forgotten. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Names } from "../src/client/names.js";

/** How many of a player's requests a server answers in a round. */
const ANSWERED = 32;

test("a crowd's names are asked for bit by bit, each once", () => {
  const asked: number[] = [];
  const names = new Names((player) => asked.push(player));
  let most = 0;
  for (let round = 0; round < 30; round++) {
    const before = asked.length;
    for (let player = 0; player < 100; player++) names.of(player);
    names.round();
    most = Math.max(most, asked.length - before);
  }
  assert.deepEqual(asked.sort((a, b) => a - b), Array.from({ length: 100 }, (_, player) => player));
  // A page that was held up makes up for three rounds.
  assert.ok(4 * most <= ANSWERED, `${most} in a round`);
});

test("the name of an absent player is requested again after a while", () => {
  let asked = 0;
  const names = new Names(() => asked++);
  names.of(1);
  names.learn(1, "");
  names.of(1);
  assert.equal(asked, 1);
  for (let round = 0; round < 200; round++) names.round();
  names.of(1);
  assert.equal(asked, 2);
  names.learn(1, "ada");
  for (let round = 0; round < 1_000; round++) names.round();
  assert.deepEqual([names.of(1), asked], ["ada", 2]);
});
