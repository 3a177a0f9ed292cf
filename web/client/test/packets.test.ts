/** Packets of a real server, applied as by the Rust client; and arbitrary bytes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Replicas } from "../src/replica/replicas.js";
import type { Change } from "../src/replica/replicas.js";
import type { Reader } from "../src/session/postcard.js";
import { FULL, Packet, PacketError, PacketReader, openState } from "../src/wire/packet.js";
import { objectId } from "../src/wire/ids.js";
import { Schema } from "../src/wire/schema.js";
import { chance } from "./files.js";
import { MISSING, list, open } from "./recorded.js";

const CHANGES: readonly Change[] = ["appeared", "updated", "frozen", "gone"];
const REFUSED = [
  "too-long", "too-short", "version", "type", "alias", "baseline", "kind", "too-many", "duplicate", "too-old",
] as const;

interface Case {
  client: number;
  bytes: Uint8Array;
  flipped: boolean;
  refused: string | null;
  tick: number;
  /** The records, each as a list of numbers in one order. */
  records: number[][];
  changes: string[];
}

function readCase(r: Reader): Case {
  const [client, bytes, flipped] = [r.u8(), r.bytesValue(), r.bool()];
  if (r.u32() === 1) return { client, bytes, flipped, refused: REFUSED[r.u8()], tick: 0, records: [], changes: [] };
  const tick = r.u32();
  const records = list(r, () => {
    const head = [r.u8(), r.u16()];
    const id = r.u64();
    const lanes = list(r, () => r.i32());
    const motion = [r.i32(), r.i32(), r.i32(), r.u32()];
    return [...head, Number(id >> 32n), Number(id & 0xffff_ffffn), ...motion, ...lanes];
  });
  const changes = list(r, () => `${CHANGES[r.u8()]} ${r.u64()}`);
  return { client, bytes, flipped, refused: null, tick, records, changes };
}

function recordsOf(packet: Packet): number[][] {
  return Array.from({ length: packet.count }, (_, n) => {
    const lanes = packet.lanes.subarray(packet.at[n], packet.at[n] + packet.size[n]);
    const named = packet.op[n] === FULL;
    const id = named ? objectId(packet.kind[n], packet.origin[n], packet.serial[n]) : 0n;
    const motion = packet.size[n] > 0 ? [...packet.moved.subarray(3 * n, 3 * n + 3), packet.ticks[n]] : [0, 0, 0, 0];
    return [packet.op[n], packet.alias[n], Number(id >> 32n), Number(id & 0xffff_ffffn), ...motion, ...lanes];
  });
}

/** Whether two lists of records are equal; quicker than `deepEqual`, which then says what differs. */
function same(a: number[][], b: number[][]): boolean {
  return a.length === b.length && a.every((row, n) => row.length === b[n].length && row.every((v, k) => v === b[n][k]));
}

/** Reads a packet without taking it in. */
function peek(replicas: Replicas, reader: PacketReader, bytes: Uint8Array, out: Packet): string | number {
  const header = { seq: 0, tick: 0 };
  try {
    openState(bytes, replicas.newest, header);
    reader.read(bytes, header.tick, replicas, out);
    return header.tick;
  } catch (error) {
    assert.ok(error instanceof PacketError, String(error));
    return error.fault;
  }
}

/** What taking packets in costs a page, which has one client: player by player, in microseconds of processor time. */
function cost(schema: Schema, byClient: Iterable<Uint8Array[]>): string {
  let [updates, packets] = [0, 0];
  const before = process.cpuUsage();
  for (const all of byClient) {
    const replicas = new Replicas(schema, 0);
    for (const bytes of all) if (replicas.receive(bytes, () => {}) === "ok") updates += replicas.packet.count;
    packets += all.length;
  }
  const { user, system } = process.cpuUsage(before);
  return `${((user + system) / updates).toFixed(2)} µs an update, ${((user + system) / packets).toFixed(1)} µs a packet`;
}

test("packets of a server mean what they mean to the Rust client, and so do damaged ones", { skip: MISSING }, (t) => {
  const { schema, reader } = open("packets.bin");
  const [clients, peeker, peeked] = [new Map<number, Replicas>(), new PacketReader(schema), new Packet()];
  const counts = { packets: 0, updates: 0, flipped: 0, refused: 0 };
  const heard = new Map<number, Uint8Array[]>();
  while (reader.left > 0) {
    const one = readCase(reader);
    const replicas = clients.get(one.client) ?? new Replicas(schema, 0);
    clients.set(one.client, replicas);
    counts.packets++;
    if (one.flipped) {
      counts.flipped++;
      assert.equal(peek(replicas, peeker, one.bytes, peeked), one.refused ?? one.tick);
      if (one.refused === null && !same(recordsOf(peeked), one.records)) assert.deepEqual(recordsOf(peeked), one.records);
      continue;
    }
    const changes: string[] = [];
    const received = replicas.receive(one.bytes, (change, replica) => changes.push(`${change} ${replica.id}`));
    const all = heard.get(one.client) ?? [];
    heard.set(one.client, all);
    all.push(one.bytes);
    if (one.refused !== null) counts.refused++;
    assert.equal(received, one.refused ?? "ok");
    if (received !== "ok") continue;
    counts.updates += replicas.packet.count;
    assert.equal(replicas.header.tick, one.tick);
    if (!same(recordsOf(replicas.packet), one.records)) assert.deepEqual(recordsOf(replicas.packet), one.records);
    assert.deepEqual(changes, one.changes);
  }
  assert.ok(counts.packets >= 100_000 && counts.flipped > 10_000 && counts.refused > 100 && counts.updates > 300_000);
  t.diagnostic(`${JSON.stringify(counts)}: ${cost(schema, heard.values())}`);
});

const SCHEMA = Schema.parse(
  "thing: max_speed=10 fall=0\n" +
    "thing.at: Place { dims: 3, precision: 0.125, extent: 2048.0, motion: true } role=Place floor=0\n" +
    "thing.yaw: Angle { steps: 240 } role=Yaw floor=0.25\n" +
    "thing.tags: List { item: Optional(Text { max: 8 }), max: 4 } role=Plain floor=0 own\n" +
    "flat: max_speed=1 fall=0\n" +
    "flat.at: Place { dims: 2, precision: 0.5, extent: 100.0, motion: false } role=Place floor=0\n" +
    "flat.spin: Quaternion { bits: 11 } role=Plain floor=0\n",
);

test("random bytes are read or refused, never anything else, and leave replicas in range", () => {
  const rng = chance(7);
  const replicas = new Replicas(SCHEMA, 0);
  let taken = 0;
  for (let n = 0; n < 30_000; n++) {
    const bytes = Uint8Array.from({ length: Math.floor(rng() * (n % 100 === 0 ? 1300 : 60)) }, () => rng() * 256);
    if (rng() < 0.9) {
      bytes.set([0x11, n & 0xff, (n >> 8) & 0xff, (n >> 1) & 0xff, (n >> 9) & 0xff].slice(0, bytes.length));
    }
    try {
      if (replicas.receive(bytes, () => {}) === "ok") taken++;
    } catch (error) {
      assert.ok(error instanceof PacketError, String(error));
    }
  }
  assert.ok(taken > 100, `${taken}`);
  for (const replica of replicas.all()) {
    const place = replica.spec.place;
    for (let axis = 0; axis < (place?.dims ?? 0); axis++) {
      assert.ok(Math.abs(replica.lanes[(place?.at ?? 0) + axis]) <= (place?.extent ?? 0));
    }
    for (let axis = 0; axis < 3; axis++) assert.ok(Number.isInteger(replica.predicted(replicas.newest + 1000, axis)));
  }
});

test("a packet that is refused leaves no trace", () => {
  const replicas = new Replicas(SCHEMA, 0);
  const before = replicas.arrivals.any;
  assert.throws(() => replicas.receive(Uint8Array.of(0x11, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), () => {}), PacketError);
  assert.equal(replicas.arrivals.any, before);
  assert.equal(replicas.size, 0);
});
