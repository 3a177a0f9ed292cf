/** A session of the Rust client, played again by this one: what it says must be the same bytes. And bad bytes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { arenaGame, parseArena, readControls } from "../src/arena/index.js";
import type { Controls, Event } from "../src/arena/index.js";
import { Core } from "../src/client/core.js";
import { readFrame } from "../src/session/frames.js";
import * as say from "../src/session/messages.js";
import { ReadError, Reader, Writer } from "../src/session/postcard.js";
import { waysTo } from "../src/transport/open.js";
import { chance } from "./files.js";
import { MISSING, list, open, recordedMap } from "./recorded.js";

test("a client that hears what Rust's client heard says the same, bit by bit", { skip: MISSING }, (t) => {
  const { schema, reader: r } = open("session.bin");
  const game = arenaGame(schema.text, parseArena(recordedMap()));
  const events: Event[] = [];
  const core = new Core(game, game.schema, "predict", { change() {}, event: (event) => events.push(event) }, () => 0);
  const counts = { ticks: 0, foreseen: 0, corrected: 0, apart: 0 };
  core.hello("bot-0", new Uint8Array(0));
  while (r.left > 0) {
    const what = r.u32();
    if (what === 0) {
      const message = core.read(r.bytesValue());
      assert.notEqual(message, null);
      if (message?.is === "welcome") core.welcome(message);
      if (message?.is === "events") core.readEvents(message.events);
      continue;
    }
    if (what === 1) {
      const now = r.u32() / 1_000;
      core.datagram(r.bytesValue(), now);
      continue;
    }
    const now = r.u32() / 1_000;
    const input: Controls = readControls(r);
    const said = r.bytesValue();
    const own = list(r, () => r.i32());
    [counts.foreseen, counts.corrected] = [r.u32(), r.u32()];
    assert.deepEqual([...(core.tick(now, () => input) ?? [])], [...said], `tick ${counts.ticks}`);
    counts.ticks++;
    const ours = core.own(now)?.lanes ?? [];
    if (own.some((lane, n) => lane !== ours[n])) counts.apart++;
  }
  const { stats } = core;
  t.diagnostic(`${JSON.stringify(counts)}; ours: ${stats.foreseen} foreseen, ${stats.corrected} corrected, ${events.length} events`);
  assert.ok(counts.ticks > 1_000 && stats.refused > 0 && events.length > 100);
  // Rust's client also foresees coming back to life, which takes more of the game than its movement.
  assert.ok(counts.apart < counts.ticks / 50, `${counts.apart} of ${counts.ticks} predicted states differ`);
  assert.ok(Math.abs(stats.corrected - counts.corrected) < counts.ticks / 50);
});

test("messages return, and any other bytes are refused by their own error", () => {
  const welcome = Uint8Array.of(0, 1, 7, 0x80, 0x80, 0x80, 0x38, 0x90, 0x4e, 0xd0, 0x86, 3, ...Array<number>(16).fill(9), 1);
  assert.deepEqual(say.readServerMessage(welcome), {
    is: "welcome", version: 1, player: 7, avatar: 117440512n, tick: 10000, round: 50000, resume: new Uint8Array(16).fill(9), resumed: true,
  });
  assert.throws(() => say.readServerMessage(Uint8Array.of(...welcome, 0)), ReadError);
  const named = Uint8Array.of(2, 5, 3, 0x61, 0x64, 0x61);
  assert.deepEqual(say.readServerMessage(named), { is: "name", player: 5, name: "ada" });
  const rng = chance(3);
  for (let n = 0; n < 50_000; n++) {
    const bytes = Uint8Array.from({ length: Math.floor(rng() * 40) }, () => rng() * 256);
    if (bytes.length > 0) bytes[0] = n % 10 === 9 ? 0x14 : n % 10;
    for (const read of [say.readServerMessage, readFrame]) {
      try {
        read(bytes);
      } catch (error) {
        assert.ok(error instanceof ReadError, String(error));
      }
    }
  }
});

test("what a client says is what Rust reads", () => {
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
  const key = new Uint8Array(16).fill(7);
  assert.equal(
    hex(say.hello({ versions: [1], schema: 300n, name: "ada", token: Uint8Array.of(1, 2), resume: key })),
    "000101ac020361646102010201" + "07".repeat(16),
  );
  assert.equal(hex(say.view(2)), "0102");
  assert.equal(hex(say.ask(1n << 56n, 128, (out) => out.u32(4))), "02" + "80".repeat(8) + "01" + "04" + "8001");
  assert.equal(hex(say.leave()), "03");
  assert.equal(hex(say.watch(null)), "0400");
  assert.equal(hex(say.watch(5n)), "040105");
  assert.equal(hex(say.who(300)), "05ac02");
  const ticket = new Uint8Array(16).fill(8);
  assert.equal(hex(say.enter({ versions: [1, 2, 3], schema: 300n, name: "ada", ticket })), "0603010203ac0203616461" + "08".repeat(16));
});

test("what servers say of other servers is what Rust writes, and contacts beyond their limits are refused", () => {
  const read = (hex: string): say.ServerMessage => say.readServerMessage(Uint8Array.from(Buffer.from(hex, "hex")));
  const [hash, key] = ["07".repeat(32), "08".repeat(16)];
  // The same bytes stand in `crates/foveate-node/src/session.rs`.
  const contact = "0205613a34343309" + "77733a2f2f623a3830";
  const found = { addresses: ["a:443", "ws://b:80"], certificate: new Uint8Array(32).fill(7) };
  const ticket = new Uint8Array(16).fill(8);
  assert.deepEqual(read(`04${contact}20${hash}${key}`), { is: "redirect", contact: found, ticket });
  assert.deepEqual(read(`05${contact}20${hash}${key}`), { is: "next", contact: found, ticket });
  assert.deepEqual(read("06"), { is: "wait" });
  assert.deepEqual(read("07ac02"), { is: "hosted", epoch: 300n });
  assert.deepEqual(read(`0801${contact}00`), { is: "standby", contact: { ...found, certificate: null } });
  assert.deepEqual(read("0800"), { is: "standby", contact: null });
  const address = (length: number): string => Buffer.from([length & 0x7f | (length > 127 ? 0x80 : 0), ...(length > 127 ? [1] : [])]).toString("hex") + "61".repeat(length);
  assert.equal(read(`0801` + "01" + address(127) + "00").is, "standby");
  assert.equal(read(`0801` + "01" + address(128) + "00").is, "standby");
  assert.equal(read("080104" + address(1).repeat(4) + "00").is, "standby");
  for (const [malformed, why] of [
    ["080100" + "00", "no address"],
    ["080105" + address(1).repeat(5) + "00", "five addresses"],
    ["080101" + address(0) + "00", "an empty address"],
    ["080101" + address(129) + "00", "a long address"],
    ["08010101ff00", "no UTF-8"],
    [`0801${contact}1f` + "07".repeat(31), "a short hash"],
    [`0801${contact}21` + "07".repeat(33), "a long hash"],
    [`05${contact}20${hash}` + "08".repeat(15), "a short ticket"],
    [`05${contact}20${hash}` + "08".repeat(17), "something after it"],
    ["0802", "no option"],
    ["0600", "something after Wait"],
    ["07", "no epoch"],
    ["07" + "ff".repeat(10) + "01", "an epoch beyond 64 bits"],
    ["09", "an unknown message"],
  ]) {
    assert.throws(() => read(malformed), ReadError, why);
  }
});

test("a contact means WebTransport at its addresses and WebSocket at those that say so", () => {
  const certificate = new Uint8Array(32);
  const addresses = ["a:443", "ws://b:80", "[::1]:4433", "wss://c", "http://d"];
  assert.deepEqual(waysTo({ addresses, certificate }), {
    webTransport: ["https://a:443/play", "https://[::1]:4433/play"],
    webSocket: ["ws://b:80/play", "wss://c/play"],
    hash: certificate,
  });
});

test("postcard numbers return at their edges", () => {
  const out = new Writer();
  const [u32s, i32s, u64s] = [[0, 127, 128, 0xffff_ffff], [0, -1, 1, 2 ** 31 - 1, -(2 ** 31)], [0n, 1n << 63n, (1n << 64n) - 1n]];
  u32s.forEach((v) => out.u32(v));
  i32s.forEach((v) => out.i32(v));
  u64s.forEach((v) => out.u64(v));
  out.i16(-300);
  out.text("größer");
  const r = new Reader(out.finish());
  assert.deepEqual(u32s.map(() => r.u32()), u32s);
  assert.deepEqual(i32s.map(() => r.i32()), i32s);
  assert.deepEqual(u64s.map(() => r.u64()), u64s);
  assert.equal(r.i16(), -300);
  assert.equal(r.text(), "größer");
  assert.equal(r.left, 0);
  assert.throws(() => new Reader(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x1f)).u32(), ReadError);
  assert.throws(() => new Reader(new Uint8Array(11).fill(0xff)).u64(), ReadError);
});
