/** What is on the screen in this frame: every replica is sampled once, for everything that draws it. */

import { type Client, idOrigin, idSerial, newSample, type Sample } from "@foveate/client";
import { type Action, AVATAR, BASE, type Controls, type Event, ITEM, MATCH, UNIT } from "@foveate/client/arena";
import { type ArenaFields, team } from "../scene/arena.js";
import type { UnitPlaces } from "./rules/units.js";

export type ArenaClient = Client<Controls, Action, Event>;

export interface Seen {
  readonly id: bigint;
  readonly kind: number;
  /** Its player: the origin of its id. */
  readonly player: number;
  /** 0 for the avatar, from 1 on for units. */
  readonly serial: number;
  x: number;
  y: number;
  yaw: number;
  team: 0 | 1 | 2;
  health: number;
  frozen: boolean;
  lanes: Int32Array;
  /** When it last lost health, by the page's clock. */
  hurtAt: number;
}

export class Sight {
  readonly avatars: Seen[] = [];
  readonly bases: Seen[] = [];
  readonly items: Seen[] = [];
  readonly units: Seen[] = [];
  /** The match's state; null before it is known. */
  match: Int32Array | null = null;
  /** The player's own avatar; null before it is known. */
  me: Seen | null = null;
  private readonly known = new Map<bigint, Seen>();
  private readonly sample: Sample = newSample();

  constructor(
    private readonly client: ArenaClient,
    readonly fields: ArenaFields,
    readonly places: UnitPlaces,
  ) {}

  get(id: bigint): Seen | undefined {
    return this.known.get(id);
  }

  avatarOf(player: number): Seen | undefined {
    return this.avatars.find((seen) => seen.player === player);
  }

  look(now: number): void {
    for (const list of [this.avatars, this.bases, this.items, this.units]) list.length = 0;
    this.match = null;
    this.me = null;
    for (const { id, kind, lanes } of this.client.objects({ frozen: true })) {
      if (kind === MATCH) {
        this.match = lanes;
        continue;
      }
      const seen = this.seen(id, kind, lanes);
      if (!this.place(seen)) continue;
      this.judge(seen, now);
      this.list(seen);
    }
    this.forget();
  }

  private seen(id: bigint, kind: number, lanes: Int32Array): Seen {
    let seen = this.known.get(id);
    if (!seen) {
      seen = {
        id,
        kind,
        player: idOrigin(id),
        serial: idSerial(id),
        x: 0,
        y: 0,
        yaw: 0,
        team: 0,
        health: Number.POSITIVE_INFINITY,
        frozen: false,
        lanes,
        hurtAt: Number.NEGATIVE_INFINITY,
      };
      this.known.set(id, seen);
    }
    seen.lanes = lanes;
    return seen;
  }

  private place(seen: Seen): boolean {
    const { sample, client } = this;
    if (!client.sample(seen.id, sample)) return false;
    [seen.x, seen.y] = sample.place;
    seen.yaw = sample.yaw;
    seen.frozen = sample.frozen;
    if (seen.kind === UNIT) this.places.put(seen, client.shownTick);
    if (seen.id === client.avatar) {
      const own = client.own();
      if (own) {
        [seen.x, seen.y] = own.place;
        seen.yaw = own.yaw;
      }
    }
    return true;
  }

  private judge(seen: Seen, now: number): void {
    const { avatar, base, unit } = this.fields;
    const { lanes } = seen;
    if (seen.kind === BASE) seen.team = team(base.team(lanes));
    if (seen.kind !== AVATAR && seen.kind !== UNIT) return;
    const of = seen.kind === AVATAR ? avatar : unit;
    seen.team = team(of.team(lanes));
    const health = of.health(lanes);
    if (health < seen.health && Number.isFinite(seen.health)) seen.hurtAt = now;
    seen.health = health;
  }

  private list(seen: Seen): void {
    if (seen.id === this.client.avatar) this.me = seen;
    if (seen.kind === AVATAR) this.avatars.push(seen);
    else if (seen.kind === BASE) this.bases.push(seen);
    else if (seen.kind === ITEM) this.items.push(seen);
    else if (seen.kind === UNIT) this.units.push(seen);
  }

  /** Forgets replicas that are gone, so that the tables do not grow. */
  private forget(): void {
    const listed = this.avatars.length + this.bases.length + this.items.length + this.units.length;
    if (this.known.size <= listed) return;
    for (const id of this.known.keys()) if (!this.client.object(id)) this.known.delete(id);
  }
}
