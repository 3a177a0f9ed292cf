/** Every golden vector decodes exactly, and one flipped bit is noticed. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Decoder, TRAINED } from "../src/wire/coder.js";
import * as contexts from "../src/wire/contexts.js";
import { FROZEN, FULL, Packet, PacketError, PacketReader, UPDATE, openState } from "../src/wire/packet.js";
import { Schema } from "../src/wire/schema.js";
import { laneCount, parseType } from "../src/wire/types.js";
import { readValue, writeValue } from "../src/wire/values.js";
import type { FieldValue } from "../src/wire/values.js";
import { cases, fromHex, projectFile, readText } from "./files.js";

interface CoderCase {
  bytes: string;
  steps: ["bit" | "raw", number, number][];
}
interface NumberCase {
  bytes: string;
  len: number;
  sign: number;
  tree: number;
  expect: number;
  pivot: number;
  signed: boolean;
  values: number[];
}
interface Held {
  alias: number;
  tick: number;
  kind: number;
  lanes: number[];
  moved: [number, number, number];
  ticks: number;
}
interface PacketCase {
  name: string;
  bytes: string;
  schema: string;
  hash: string;
  held: Held[];
  near: number;
  seq: number;
  tick: number;
  records: object[];
}
interface ValueCase {
  type: string;
  value: unknown;
  lanes: number[];
  back: unknown;
}

function decoder(bytes: Uint8Array): Decoder {
  const c = new Decoder();
  c.start(bytes, 0);
  return c;
}

function readCoder({ steps }: CoderCase, bytes: Uint8Array): number[] {
  const c = decoder(bytes);
  return steps.map(([what, where]) => (what === "bit" ? c.bit(where) : c.raw(where)));
}

function readNumbers(one: NumberCase, bytes: Uint8Array): number[] {
  const c = decoder(bytes);
  return one.values.map(() =>
    one.signed ? c.value(one.len, one.sign, one.tree, one.expect, one.pivot) : c.count(one.len),
  );
}

function readPacket(one: PacketCase, bytes: Uint8Array): { seq: number; tick: number; records: object[] } {
  const [reader, packet, header] = [new PacketReader(Schema.parse(one.schema)), new Packet(), { seq: 0, tick: 0 }];
  openState(bytes, one.near, header);
  const held = new Map(one.held.map((state) => [`${state.alias} ${state.tick}`, state]));
  reader.read(bytes, header.tick, {
    find(alias, tick, base) {
      const state = held.get(`${alias} ${tick}`);
      if (state === undefined) return -1;
      base.lanes = Int32Array.from(state.lanes);
      base.at = 0;
      state.moved.forEach((moved, axis) => (base.moved[axis] = moved));
      base.ticks = state.ticks;
      return state.kind;
    },
  }, packet);
  return { ...header, records: Array.from({ length: packet.count }, (_, n) => recordOf(packet, n)) };
}

function recordOf(packet: Packet, n: number): object {
  const alias = packet.alias[n];
  if (packet.op[n] > FULL) return { alias, op: packet.op[n] === FROZEN ? "frozen" : "gone" };
  const lanes = [...packet.lanes.subarray(packet.at[n], packet.at[n] + packet.size[n])];
  if (packet.op[n] === UPDATE) {
    return { alias, op: "update", lanes, moved: [...packet.moved.subarray(3 * n, 3 * n + 3)], ticks: packet.ticks[n] };
  }
  return { alias, op: "full", kind: packet.kind[n], origin: packet.origin[n], serial: packet.serial[n], lanes };
}

/** Turns each bit of a case's bytes over, and names those without which it still reads the same. */
function unnoticed(bytes: Uint8Array, expected: unknown, read: (bytes: Uint8Array) => unknown): number[] {
  const right = JSON.stringify(expected);
  const same = (bit: number): boolean => {
    const wrong = bytes.slice();
    wrong[bit >> 3] ^= 1 << (bit & 7);
    try {
      return JSON.stringify(read(wrong)) === right;
    } catch (error) {
      assert.ok(error instanceof PacketError, String(error));
      return false;
    }
  };
  return Array.from({ length: bytes.length * 8 }, (_, bit) => bit).filter(same);
}

test("the trained table is the wire's own", () => {
  const table = readFileSync(projectFile("crates/foveate-wire/src/trained.bin"));
  assert.deepEqual(Buffer.from(TRAINED.buffer), table);
});

test("contexts lie where the document says", () => {
  const rows = [...readText("docs/WIRE.md").matchAll(/^\| ([A-Z_]+) \| (\d+) \| (?:\d+|–) \|/gm)];
  const found = Object.fromEntries(rows.map(([, name, first]) => [name, Number(first)]));
  const { STEPS, SIGNS, TREES, PLAIN, ...ours } = contexts;
  assert.deepEqual([STEPS, SIGNS, TREES, PLAIN], [25, 10, 53, 88]);
  assert.deepEqual(ours, found);
});

test("coder vectors read as they were written", () => {
  for (const one of cases<CoderCase>("coder")) {
    assert.deepEqual(readCoder(one, fromHex(one.bytes)), one.steps.map((step) => Number(step[2])));
  }
});

test("number vectors read as they were written", () => {
  for (const one of cases<NumberCase>("numbers")) assert.deepEqual(readNumbers(one, fromHex(one.bytes)), one.values);
});

test("packet vectors read as they were written", () => {
  const all = cases<PacketCase>("packets");
  assert.ok(all.length > 20);
  for (const one of all) {
    assert.equal(Schema.parse(one.schema).hash.toString(16).padStart(16, "0"), one.hash, one.name);
    assert.deepEqual(readPacket(one, fromHex(one.bytes)), { seq: one.seq, tick: one.tick, records: one.records }, one.name);
  }
});

test("a vector with one flipped bit is told from the right one", () => {
  // Some bytes mean the same: any number in the interval that the last decision leaves, what no writer makes of raw
  // bits, a symbol beyond its count, a turn by a whole round. There is room for a handful of those and for no more.
  const few = 20;
  for (const one of cases<PacketCase>("packets")) {
    const bytes = fromHex(one.bytes);
    const missed = unnoticed(bytes, readPacket(one, bytes), (wrong) => readPacket(one, wrong));
    assert.ok(missed.length <= few, `${one.name}: ${missed.length} of ${bytes.length * 8} flips were not noticed`);
  }
  for (const one of cases<NumberCase>("numbers")) {
    const bytes = fromHex(one.bytes);
    const missed = unnoticed(bytes, one.values, (wrong) => readNumbers(one, wrong));
    assert.ok(missed.length <= few, `${missed.length} of ${bytes.length * 8} flips were not noticed`);
  }
});

function asValue(type: string, value: unknown): FieldValue {
  if (type.startsWith("Bytes")) return Uint8Array.from(value as number[]);
  if (/^(Number|Angle)/.test(type)) return (value as number[])[0];
  return (typeof value === "boolean" ? Number(value) : value) as FieldValue;
}

test("values become the lanes of their vectors, and lanes the values", () => {
  for (const one of cases<ValueCase>("values")) {
    const type = parseType(one.type);
    const lanes = new Int32Array(laneCount(type));
    writeValue(type, asValue(one.type, one.value), lanes, 0);
    assert.deepEqual([...lanes], one.lanes, JSON.stringify(one));
    const [back, expected] = [readValue(type, lanes, 0), asValue(one.type, one.back)];
    if (type.type === "Quaternion") {
      // The order of float operations is not part of the wire.
      (back as number[]).forEach((part, n) => assert.ok(Math.abs(part - (expected as number[])[n]) < 1e-6));
    } else {
      assert.deepEqual(back, expected, JSON.stringify(one));
    }
  }
});
