/** Datagrams that overtake the welcome. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Core } from "../src/client/core.js";
import type { GameAdapter } from "../src/client/types.js";
import { Reader } from "../src/session/postcard.js";
import { Schema } from "../src/wire/schema.js";

const SCHEMA = Schema.parse("thing: max_speed=0 fall=0\nthing.on: Symbol { count: 2 } role=Plain floor=0\n");
const GAME: GameAdapter<never, never, number> = { decodeEvent: (reader: Reader) => reader.u8() };
/** Player 7, tick 10,000, rounds of 50 ms; a session that goes on. */
const WELCOME = Uint8Array.of(0, 1, 7, 0x80, 0x80, 0x80, 0x38, 0x90, 0x4e, 0xd0, 0x86, 3, ...Array<number>(16).fill(9), 1);
/** A frame with nothing in it but an event. */
const frame = (event: number): Uint8Array => Uint8Array.of(0x14, 4, 1, 0, event, 0, 0);

function welcome(core: ReturnType<typeof listening>["core"]) {
  const message = core.read(WELCOME);
  assert.ok(message?.is === "welcome");
  core.welcome(message);
}

function listening() {
  const heard: number[] = [];
  const told = { change: () => {}, event: (event: number) => void heard.push(event) };
  return { heard, core: new Core(GAME, SCHEMA, "predict", told, () => 0) };
}

test("what overtakes the welcome is read when it comes, in order", () => {
  const { heard, core } = listening();
  core.datagram(frame(1), 0);
  core.hello("ada", new Uint8Array(0));
  core.datagram(frame(2), 1);
  core.datagram(frame(3), 2);
  assert.deepEqual(heard, [], "without a welcome nothing can be read");
  welcome(core);
  core.datagram(frame(4), 3);
  assert.deepEqual(heard, [2, 3, 4], "and what came before the hello was for no session");
});

test("what comes early is bounded, and ends with its link", () => {
  const { heard, core } = listening();
  core.hello("ada", new Uint8Array(0));
  core.datagram(frame(1), 0);
  core.hello("ada", new Uint8Array(0));
  for (let n = 0; n < 1_000; n++) core.datagram(frame(2), n);
  welcome(core);
  assert.equal(heard.length, 64);
  assert.ok(!heard.includes(1));
});
