/**
 * The receiving side: replicas of the server's objects, and how current each is. Section 8 of `docs/WIRE.md`.
 *
 * A packet is read as a whole before any of it is applied. An invalid packet is not acknowledged, so that the sender
 * considers it lost and repeats what matters.
 */
import { FROZEN, FULL, GONE, Packet, PacketReader, UPDATE, openState } from "../wire/packet.js";
import type { Header, States } from "../wire/packet.js";
import type { Baseline } from "../wire/record.js";
import type { ObjectView } from "../client/types.js";
import type { Kind, Schema } from "../wire/schema.js";
import { objectId } from "../wire/ids.js";
import { way } from "../wire/place.js";
import { Arrivals } from "./arrivals.js";
import { StateRing, isAfter } from "./states.js";

/** A replica of an object; pages see it as an `ObjectView`. */
export class Replica implements ObjectView {
  life: "live" | "frozen" | "gone" = "live";
  /** Tick of the newest notice, or of the opening: older ones are ignored. */
  noticed: number;
  readonly states: StateRing;

  constructor(
    readonly id: bigint,
    readonly spec: Kind,
    readonly alias: number,
    /** Tick of the packet that opened the alias for this object. */
    readonly opened: number,
  ) {
    this.noticed = opened;
    this.states = new StateRing(spec.lanes);
  }

  get kind(): number {
    return this.spec.number;
  }

  get tick(): number {
    return this.states.newestTick;
  }

  get lanes(): Int32Array {
    return this.states.newestLanes();
  }

  get frozen(): boolean {
    return this.life === "frozen";
  }

  /** Rounds from its newest state to a tick, at least 0. */
  roundsTo(tick: number): number {
    const rounds = (tick - this.tick) >>> 0;
    return rounds > 0x7fff_ffff ? 0 : rounds;
  }

  /** Where the shared predictor puts it in a round, on one axis, in steps; the sender's bounds refer to this place. */
  predicted(tick: number, axis: number): number {
    const place = this.spec.place;
    if (place === null || axis >= place.dims) return 0;
    const from = this.states.lane(place.at + axis);
    if (!place.motion) return from;
    // A frozen one only moves up to the freeze: it must not jump back.
    const rounds = this.roundsTo(this.life === "live" ? tick : this.noticed);
    return (from + way(this.states.motion(axis), this.states.motion(3) >>> 0, rounds)) | 0;
  }
}

/** A change of a replica. */
export type Change = "appeared" | "updated" | "frozen" | "gone";

/** Whether a packet was applied, or why not. */
export type Received = "ok" | "duplicate" | "too-old";

/** All replicas of one link. */
export class Replicas implements States {
  /** The newest round that a packet mentioned. */
  newest: number;
  readonly arrivals = new Arrivals();
  /** The contents of the current packet, kept until the next one. */
  readonly packet = new Packet();
  readonly header: Header = { seq: 0, tick: 0 };
  /** How many packets the last one was ahead of the newest one before; 0 or less if it was late. */
  ahead = 0;
  private readonly reader: PacketReader;
  private readonly byAlias: (Replica | undefined)[] = [];
  /** The newest notice for each alias, which may arrive before the state that it is about. */
  private readonly notices = new Map<number, { tick: number; life: "frozen" | "gone" }>();
  private readonly byId = new Map<bigint, Replica>();

  /** Starts without replicas. `near`: the sender's tick, within half an hour. */
  constructor(
    readonly schema: Schema,
    near: number,
  ) {
    this.newest = near >>> 0;
    this.reader = new PacketReader(schema);
  }

  /** Applies a state packet; throws `PacketError` for an invalid one. */
  receive(bytes: Uint8Array, changed: (change: Change, replica: Replica) => void): Received {
    const { header, packet } = this;
    openState(bytes, this.newest, header);
    const arrived = this.arrivals.check(header.seq);
    if (arrived !== "ok") return arrived;
    this.reader.read(bytes, header.tick, this, packet);
    this.ahead = this.arrivals.note(header.seq);
    if (isAfter(header.tick, this.newest)) this.newest = header.tick;
    for (let n = 0; n < packet.count; n++) this.apply(n, header.tick, changed);
    return "ok";
  }

  find(alias: number, tick: number, base: Baseline): number {
    const replica = this.byAlias[alias];
    // A state from before the alias was opened belongs to another object.
    if (replica === undefined || isAfter(replica.opened, tick)) return -1;
    return replica.states.find(tick, base) ? replica.kind : -1;
  }

  get(id: bigint): Replica | undefined {
    return this.byId.get(id);
  }

  /** All replicas that are not gone. */
  all(): IterableIterator<Replica> {
    return this.byId.values();
  }

  /** All replicas that have not left the view. */
  *inView(): IterableIterator<Replica> {
    for (const replica of this.byId.values()) if (!replica.frozen) yield replica;
  }

  get size(): number {
    return this.byId.size;
  }

  private apply(n: number, tick: number, changed: (change: Change, replica: Replica) => void): void {
    const { packet } = this;
    const alias = packet.alias[n];
    switch (packet.op[n]) {
      case UPDATE: {
        const replica = this.byAlias[alias];
        if (replica !== undefined && this.push(replica, n, tick)) this.tell("updated", replica, changed);
        return;
      }
      case FULL:
        this.applyFull(n, alias, tick, changed);
        return;
      case FROZEN:
        this.notice(alias, "frozen", tick, changed);
        return;
      case GONE:
        this.notice(alias, "gone", tick, changed);
    }
  }

  /** Adds a state; returns whether it is the newest of an existing replica. */
  private push(replica: Replica, n: number, tick: number): boolean {
    const newer = isAfter(tick, replica.states.newestTick);
    replica.states.push(tick, this.packet, n);
    if (!newer || replica.life === "gone") return false;
    if (replica.life === "frozen" && isAfter(tick, replica.noticed)) replica.life = "live";
    return true;
  }

  private applyFull(n: number, alias: number, tick: number, changed: (change: Change, replica: Replica) => void): void {
    const { packet } = this;
    const id = objectId(packet.kind[n], packet.origin[n], packet.serial[n]);
    const known = this.byAlias[alias];
    if (known !== undefined) {
      if (known.id === id && known.life !== "gone") {
        if (this.push(known, n, tick)) this.tell("updated", known, changed);
        return;
      }
      if (!isAfter(tick, known.noticed)) return;
      if (this.byId.get(known.id) === known) this.byId.delete(known.id);
    }
    // A notice may have overtaken the state.
    const notice = this.notices.get(alias);
    const overtaken = notice !== undefined && !isAfter(tick, notice.tick) ? notice : undefined;
    if (overtaken?.life === "gone") return;
    const replica = new Replica(id, this.schema.kinds[packet.kind[n]], alias, tick);
    if (overtaken !== undefined) {
      replica.life = "frozen";
      replica.noticed = overtaken.tick;
    }
    replica.states.push(tick, packet, n);
    this.byAlias[alias] = replica;
    // The object may have been removed and created again: the later one counts, in whichever order they arrive.
    const other = this.byId.get(id);
    if (other !== undefined && isAfter(other.opened, tick)) return;
    this.byId.set(id, replica);
    changed("appeared", replica);
  }

  /** Reports a change, unless the object was created again and has another alias. */
  private tell(change: Change, replica: Replica, changed: (change: Change, replica: Replica) => void): void {
    if (this.byId.get(replica.id) === replica) changed(change, replica);
  }

  private notice(
    alias: number,
    life: "frozen" | "gone",
    tick: number,
    changed: (change: Change, replica: Replica) => void,
  ): void {
    const known = this.notices.get(alias);
    if (known === undefined || isAfter(tick, known.tick)) this.notices.set(alias, { tick, life });
    const replica = this.byAlias[alias];
    if (replica === undefined || !isAfter(tick, replica.noticed) || replica.life === "gone") return;
    replica.noticed = tick;
    if (life === "frozen") {
      if (isAfter(replica.states.newestTick, tick)) return; // it is alive again
      replica.life = "frozen";
      this.tell("frozen", replica, changed);
      return;
    }
    // Its states are kept until the alias is reused: late packets may still refer to them.
    replica.life = "gone";
    if (this.byId.get(replica.id) !== replica) return; // it was created again, and has another alias
    this.byId.delete(replica.id);
    changed("gone", replica);
  }
}
