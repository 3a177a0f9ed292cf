/** The avatar's rule, `use_hands` in `arena/src/game/avatar.rs`, on lanes: how a client predicts its own avatar. */
import { fieldOf } from "../wire/schema.js";
import type { Field, Kind } from "../wire/schema.js";
import { angleToSteps } from "../wire/values.js";
import type { CollisionMap } from "./collision.js";
import { ArenaError } from "./map.js";
import { step } from "./movement.js";
import type { Body } from "./movement.js";
import { WEAPONS } from "./shapes.js";
import type { Controls } from "./shapes.js";

/** Steps of the movement's velocity in one of the replicated velocity. */
const VELOCITY_STEP = 64;
/** Steps of the movement's yaw in one of the avatar's yaw. */
const YAW_STEP = 64;
const YAW_STEPS = 1024;
/** Milliseconds to change the weapon, of the longest cooldown, and of the cooldowns of blaster, scatter and lance. */
const CHANGE_MS = 300;
const LONGEST_MS = 1_600;
const COOLDOWN_MS = [400, 750, 1_600] as const;

/** The lanes that the rule reads and writes. */
interface Lanes {
  readonly x: number;
  readonly yaw: number;
  readonly vx: number;
  readonly vy: number;
  readonly health: number;
  readonly ready: number;
  readonly weapon: number;
}

/** Predicts the player's own avatar. */
export class AvatarRule {
  private readonly lanes: Lanes;
  private readonly body: Body = { x: 0, y: 0, vx: 0, vy: 0 };

  constructor(
    kind: Kind,
    private readonly map: CollisionMap,
    private readonly rate: number,
  ) {
    const lane = (name: string): number => {
      const field: Field | undefined = fieldOf(kind, name);
      if (field === undefined) throw new ArenaError(`avatars have no ${name}: this server plays another game`);
      return field.at;
    };
    this.lanes = {
      x: lane("pos"), yaw: lane("yaw"), vx: lane("vx"), vy: lane("vy"), health: lane("health"), ready: lane("ready"),
      weapon: lane("weapon"),
    };
  }

  /** The avatar after an input; `state` is changed and returned. */
  step(state: Int32Array, input: Controls, tick: number): Int32Array {
    const { lanes } = this;
    if (state[lanes.health] === 0) return state;
    if (typeof input.hands !== "string") {
      const yaw = (state[lanes.yaw] * YAW_STEP) & 0xffff;
      this.walk(state, { forward: 0, strafe: 0, yaw });
      return state;
    }
    this.walk(state, input.walk);
    const now = tick & 0xffff;
    const left = this.ticksLeft(state[lanes.ready], now);
    const weapon = WEAPONS.indexOf(input.hands);
    if (weapon !== state[lanes.weapon]) {
      // Changing the weapon does not shorten the cooldown of the first one.
      state[lanes.weapon] = weapon;
      state[lanes.ready] = (now + Math.max(left, this.ticks(CHANGE_MS))) & 0xffff;
    } else if (input.fire !== null && left === 0) {
      state[lanes.ready] = (now + this.ticks(COOLDOWN_MS[weapon])) & 0xffff;
    }
    return state;
  }

  /** Ticks until the weapon of a state can fire; 0 if it can. */
  ticksUntilReady(state: Int32Array, tick: number): number {
    return this.ticksLeft(state[this.lanes.ready], tick & 0xffff);
  }

  private walk(state: Int32Array, input: Controls["walk"]): void {
    const { lanes, body } = this;
    body.x = state[lanes.x];
    body.y = state[lanes.x + 1];
    body.vx = state[lanes.vx] * VELOCITY_STEP;
    body.vy = state[lanes.vy] * VELOCITY_STEP;
    step(this.map, body, input);
    state[lanes.x] = body.x;
    state[lanes.x + 1] = body.y;
    state[lanes.vx] = Math.trunc(body.vx / VELOCITY_STEP);
    state[lanes.vy] = Math.trunc(body.vy / VELOCITY_STEP);
    // Through radians in single precision, as at the owner: this decides how halves are rounded.
    state[lanes.yaw] = angleToSteps((input.yaw & 0xffff) * ((2 * Math.PI) / 65_536), YAW_STEPS);
  }

  private ticks(milliseconds: number): number {
    return Math.floor((milliseconds * this.rate) / 1000);
  }

  /** A time that is further ahead than possible has passed. */
  private ticksLeft(until: number, now: number): number {
    const left = (until - now) & 0xffff;
    return left <= this.ticks(LONGEST_MS) ? left : 0;
  }
}
