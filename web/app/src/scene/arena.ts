/** Positions of the arena's fields in the lanes of a state, which are read directly in each frame. */

import type { Schema } from "@foveate/client";
import { AVATAR, BASE, ITEM, MATCH, UNIT } from "@foveate/client/arena";

/** An object's look on the map. */
export interface Glance {
  /** 1 or 2; 0 for none. */
  team: 0 | 1 | 2;
  alive: boolean;
  shield: boolean;
}

type Lanes = ArrayLike<number>;
/** Reads a field's first lane; `at` is its index. */
export interface Read {
  (lanes: Lanes): number;
  readonly at: number;
}

/** Reads whole numbers, symbols and flags by name. */
export class ArenaFields {
  readonly avatar;
  readonly base;
  readonly item;
  readonly unit;
  readonly match;

  constructor(schema: Schema) {
    const of = <K extends string>(kind: number, ...names: K[]): Record<K, Read> => {
      const found = schema.kinds[kind];
      const reads = names.map((name): [K, Read] => {
        const field = found?.fields.find((entry) => entry.name === name);
        if (!field) throw new Error(`this page does not fit the server: kind ${kind} has no ${name}`);
        const read = (lanes: Lanes): number => lanes[field.at] ?? 0;
        return [name, Object.assign(read, { at: field.at })];
      });
      return Object.fromEntries(reads) as Record<K, Read>;
    };
    this.avatar = of(AVATAR, "pos", "yaw", "vx", "vy", "health", "team", "ready", "weapon", "score", "kills", "deaths");
    this.base = of(BASE, "team", "progress");
    this.item = of(ITEM, "charm", "holder", "until");
    this.unit = of(UNIT, "pos", "team", "duty", "health", "target", "since");
    this.match = of(MATCH, "round", "first", "second", "winner", "ends", "phase");
  }

  glance(kind: number, lanes: Lanes | undefined): Glance {
    const seen: Glance = { team: 0, alive: true, shield: false };
    if (!lanes) return seen;
    if (kind === AVATAR) {
      seen.team = team(this.avatar.team(lanes));
      seen.alive = this.avatar.health(lanes) > 0;
    } else if (kind === BASE) {
      seen.team = team(this.base.team(lanes));
    } else if (kind === UNIT) {
      seen.team = team(this.unit.team(lanes));
      seen.alive = this.unit.health(lanes) > 0;
    } else if (kind === ITEM) {
      seen.shield = this.item.charm(lanes) === 1;
    }
    return seen;
  }
}

/** A valid team number for any value. */
export function team(value: number): 0 | 1 | 2 {
  return value === 1 || value === 2 ? value : 0;
}
