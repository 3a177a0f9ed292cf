/** State packets: sections 1, 5 and 8 of `docs/WIRE.md`. A packet is read as a whole before any of it is used. */
import * as C from "./contexts.js";
import { Decoder } from "./coder.js";
import { Fall } from "./place.js";
import { readState } from "./record.js";
import type { Baseline, Motion } from "./record.js";
import type { Schema } from "./schema.js";

export const VERSION = 1;
export const MAX_PACKET = 1200;
export const MAX_RECORDS = 512;
export const KEPT_STATES = 32;
const STATE_HEADER = 5;
const MAX_ALIAS = 65_535;

/** Why a packet was rejected. None of it was used. */
export type PacketFault = "too-long" | "too-short" | "version" | "type" | "alias" | "baseline" | "kind" | "too-many";

/** A packet was rejected. */
export class PacketError extends Error {
  override readonly name = "PacketError";

  constructor(readonly fault: PacketFault) {
    super(`a state packet was refused: ${fault}`);
  }
}

/** Kinds of records. */
export const UPDATE = 0;
export const FULL = 1;
export const FROZEN = 2;
export const GONE = 3;

/** What a reader needs to know of the receiver's replicas. */
export interface States {
  /**
   * The kind of the object behind an alias, if its state of that tick is kept; lanes and motion are then in `base`. −1
   * otherwise.
   */
  find(alias: number, tick: number, base: Baseline): number;
}

/** A packet's number and round. */
export interface Header {
  seq: number;
  tick: number;
}

/** Splits off the uncoded part. `near`: any tick within 32,767 rounds of the packet's, to complete it. */
export function openState(bytes: Uint8Array, near: number, out: Header): void {
  if (bytes.length > MAX_PACKET) throw new PacketError("too-long");
  if (bytes.length === 0) throw new PacketError("too-short");
  if (bytes[0] >> 4 !== VERSION) throw new PacketError("version");
  if ((bytes[0] & 15) !== 1) throw new PacketError("type");
  if (bytes.length < STATE_HEADER) throw new PacketError("too-short");
  out.seq = bytes[1] | (bytes[2] << 8);
  const behind = ((near - (bytes[3] | (bytes[4] << 8))) << 16) >> 16;
  out.tick = (near - behind) >>> 0;
}

/** The records of one packet in parallel arrays, reused for the next one. */
export class Packet {
  count = 0;
  readonly op = new Uint8Array(MAX_RECORDS);
  readonly alias = new Uint16Array(MAX_RECORDS);
  /** The state's kind, origin and serial: for whole states the object's id, for updates only the kind. */
  readonly kind = new Uint8Array(MAX_RECORDS);
  readonly origin = new Uint32Array(MAX_RECORDS);
  readonly serial = new Uint32Array(MAX_RECORDS);
  /** Where each state's lanes start in `lanes`, and how many there are. */
  readonly at = new Uint32Array(MAX_RECORDS);
  readonly size = new Uint16Array(MAX_RECORDS);
  lanes = new Int32Array(1024);
  /** The motion of each state: three axes and the ticks. */
  readonly moved = new Int32Array(MAX_RECORDS * 3);
  readonly ticks = new Uint32Array(MAX_RECORDS);
  readonly jumped = new Uint8Array(MAX_RECORDS);
  private used = 0;

  /** Clears the records for a new packet. */
  clear(): void {
    this.count = 0;
    this.used = 0;
  }

  /** Reserves space for the lanes of the current record; returns their index. */
  room(lanes: number): number {
    const at = this.used;
    this.used += lanes;
    if (this.used > this.lanes.length) {
      const larger = new Int32Array(Math.max(this.lanes.length * 2, this.used));
      larger.set(this.lanes);
      this.lanes = larger;
    }
    this.at[this.count] = at;
    this.size[this.count] = lanes;
    return at;
  }
}

/** Reads packets one after the other. */
export class PacketReader {
  private readonly c = new Decoder();
  private readonly fall = new Fall();
  private readonly base: Baseline = { lanes: new Int32Array(0), at: 0, moved: [0, 0, 0], ticks: 0, age: 0 };
  private readonly motion: Motion = { moved: [0, 0, 0], ticks: 0, jumped: false };

  constructor(private readonly schema: Schema) {}

  /** Reads the records of a packet of round `tick` into `out`; throws `PacketError` for an invalid one. */
  read(bytes: Uint8Array, tick: number, states: States, out: Packet): void {
    const { c } = this;
    c.start(bytes, STATE_HEADER);
    this.fall.restart();
    out.clear();
    let next = 0;
    while (c.bit(C.MORE + (out.count < 2 ? out.count : 2)) === 1) {
      if (out.count === MAX_RECORDS) throw new PacketError("too-many");
      const alias = next + c.count(C.GAP);
      if (alias > MAX_ALIAS) throw new PacketError("alias");
      next = alias + 1;
      out.alias[out.count] = alias;
      this.record(alias, tick, states, out);
      out.count++;
    }
  }

  private record(alias: number, tick: number, states: States, out: Packet): void {
    const { c, base } = this;
    const n = out.count;
    if (c.bit(C.OPERATION) === 0) {
      const age = Math.min(c.count(C.AGE) + 1, 0xffff_ffff);
      const kind = states.find(alias, (tick - age) >>> 0, base);
      if (kind < 0) throw new PacketError("baseline");
      base.age = age;
      out.op[n] = UPDATE;
      this.state(kind, base, out);
    } else if (c.bit(C.OPERATION + 1) === 0) {
      const kind = c.raw(8);
      out.op[n] = FULL;
      out.origin[n] = c.count(C.NAME) & 0xff_ffff;
      out.serial[n] = c.count(C.NAME + C.PLAIN);
      this.state(kind, null, out);
    } else {
      out.op[n] = c.bit(C.OPERATION + 2) === 1 ? GONE : FROZEN;
      out.room(0);
    }
  }

  private state(number: number, base: Baseline | null, out: Packet): void {
    const kind = this.schema.kinds[number];
    if (kind === undefined) throw new PacketError("kind");
    const { motion } = this;
    const n = out.count;
    this.fall.of(kind.fall);
    const at = out.room(kind.lanes);
    readState(this.c, kind, base, this.fall, out.lanes, at, motion);
    out.kind[n] = number;
    for (let axis = 0; axis < 3; axis++) out.moved[n * 3 + axis] = motion.moved[axis];
    out.ticks[n] = motion.ticks;
    out.jumped[n] = motion.jumped ? 1 : 0;
  }
}
