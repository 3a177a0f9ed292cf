/** The recent states of one object: baselines for updates, and input for interpolation. */
import { KEPT_STATES } from "../wire/packet.js";
import type { Packet } from "../wire/packet.js";
import type { Baseline } from "../wire/record.js";

/** Whether one tick is after another, by the shorter way round. */
export function isAfter(tick: number, other: number): boolean {
  const ahead = (tick - other) >>> 0;
  return ahead !== 0 && ahead <= 0x7fff_ffff;
}

/** The newest states, in no particular order in memory. */
export class StateRing {
  private used = 0;
  private room = 2;
  private ticks = new Uint32Array(this.room);
  private states: Int32Array;
  /** The motion of each state: three axes, ticks, and whether it jumped. */
  private motions = new Int32Array(this.room * 5);
  private newest = 0;
  private window: Int32Array = new Int32Array(0);

  constructor(readonly lanes: number) {
    this.states = new Int32Array(this.room * lanes);
  }

  /** Adds the state of a packet's record; false if it is known, or older than all of a full ring. */
  push(tick: number, packet: Packet, record: number): boolean {
    if (this.indexOf(tick) >= 0) return false;
    const at = this.place(tick);
    if (at < 0) return false;
    this.ticks[at] = tick;
    const from = packet.at[record];
    this.states.set(packet.lanes.subarray(from, from + this.lanes), at * this.lanes);
    for (let axis = 0; axis < 3; axis++) this.motions[at * 5 + axis] = packet.moved[record * 3 + axis];
    this.motions[at * 5 + 3] = packet.ticks[record];
    this.motions[at * 5 + 4] = packet.jumped[record];
    if (at !== this.newest && isAfter(tick, this.ticks[this.newest])) this.newest = at;
    return true;
  }

  /** The index for a new state: a free one, or that of the oldest. */
  private place(tick: number): number {
    if (this.used < KEPT_STATES) {
      if (this.used === this.room) this.grow();
      return this.used++;
    }
    let oldest = 0;
    for (let at = 1; at < this.used; at++) if (isAfter(this.ticks[oldest], this.ticks[at])) oldest = at;
    return isAfter(tick, this.ticks[oldest]) ? oldest : -1;
  }

  private grow(): void {
    this.room = Math.min(this.room * 2, KEPT_STATES);
    const larger = <T extends Int32Array | Uint32Array>(old: T, made: T): T => {
      made.set(old);
      return made;
    };
    this.ticks = larger(this.ticks, new Uint32Array(this.room));
    this.states = larger(this.states, new Int32Array(this.room * this.lanes));
    this.motions = larger(this.motions, new Int32Array(this.room * 5));
  }

  private indexOf(tick: number): number {
    for (let at = 0; at < this.used; at++) if (this.ticks[at] === tick) return at;
    return -1;
  }

  get newestTick(): number {
    return this.ticks[this.newest];
  }

  /** Whether any state after a tick came by a jump. */
  jumpedSince(tick: number): boolean {
    for (let at = 0; at < this.used; at++) {
      if (this.motions[at * 5 + 4] === 1 && isAfter(this.ticks[at], tick)) return true;
    }
    return false;
  }

  /** The newest state: a view of the ring, replaced only when it moves. */
  newestLanes(): Int32Array {
    const at = this.newest * this.lanes;
    if (this.window.buffer !== this.states.buffer || this.window.byteOffset !== at * 4) {
      this.window = this.states.subarray(at, at + this.lanes);
    }
    return this.window;
  }

  /** One lane of the newest state. */
  lane(lane: number): number {
    return this.states[this.newest * this.lanes + lane];
  }

  /** The motion of the newest state on an axis (0 to 2); with 3, in how many ticks. */
  motion(axis: number): number {
    return this.motions[this.newest * 5 + axis];
  }

  /** Reads the state of exactly this tick into `base`; false if it is not kept. */
  find(tick: number, base: Baseline): boolean {
    const at = this.indexOf(tick);
    if (at < 0) return false;
    base.lanes = this.states;
    base.at = at * this.lanes;
    for (let axis = 0; axis < 3; axis++) base.moved[axis] = this.motions[at * 5 + axis];
    base.ticks = this.motions[at * 5 + 3] >>> 0;
    return true;
  }

  /** The states around a tick: the last at or before it, and the first after it; −1 for none. */
  around(tick: number): readonly [before: number, after: number] {
    let before = -1;
    let after = -1;
    for (let at = 0; at < this.used; at++) {
      const its = this.ticks[at];
      if (isAfter(its, tick)) {
        if (after < 0 || isAfter(this.ticks[after], its)) after = at;
      } else if (before < 0 || isAfter(its, this.ticks[before])) {
        before = at;
      }
    }
    return [before, after];
  }

  tickAt(at: number): number {
    return this.ticks[at];
  }

  laneAt(at: number, lane: number): number {
    return this.states[at * this.lanes + lane];
  }

  jumpedAt(at: number): boolean {
    return this.motions[at * 5 + 4] === 1;
  }
}
