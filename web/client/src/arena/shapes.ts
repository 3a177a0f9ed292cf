/** Types of the game's data on the wire, as in `docs/ARENA.md`: controls, actions, events, kinds. */
import { ReadError } from "../session/postcard.js";
import type { Reader, Writer } from "../session/postcard.js";
import { objectId } from "../wire/ids.js";
import type { Walk } from "./movement.js";

/** Kinds by number in the schema. */
export const AVATAR = 0;
export const BASE = 1;
export const ITEM = 2;
export const UNIT = 3;
export const MATCH = 4;

/** Weapons by number. */
export const WEAPONS = ["blaster", "scatter", "lance", "dart"] as const;
export type Weapon = (typeof WEAPONS)[number];
/** Effects of items, by number. */
export const CHARMS = ["blade", "shield"] as const;
export type Charm = (typeof CHARMS)[number];
/** Activities of units, by number. */
export const DUTIES = ["guard", "march", "follow", "join", "down"] as const;
export type Duty = (typeof DUTIES)[number];

/** What a player controls: the avatar with a weapon, or a unit. */
export type Hands = "blaster" | "scatter" | "lance" | { readonly unit: number };

/** A player's input of one tick. */
export interface Controls {
  readonly walk: Walk;
  /** The tick whose world the player saw when firing along the yaw; null for no shot. */
  readonly fire: number | null;
  readonly hands: Hands;
}

/** Requests of players to objects. */
export type Action = { readonly is: "take" | "drop" | "follow" | "stay" } | { readonly is: "order"; readonly target: number };

/** Things seen and heard. Players are numbers; `unit` is from 0, or null for an avatar. */
export type Event =
  | {
      readonly is: "shot";
      readonly player: number;
      readonly unit: number | null;
      readonly weapon: Weapon;
      /** In radians. */
      readonly yaw: number;
      /** In world units. */
      readonly length: number;
      readonly hits: number;
    }
  | { readonly is: "died"; readonly player: number; readonly by: number; readonly weapon: Weapon }
  | { readonly is: "back"; readonly player: number }
  | { readonly is: "taken"; readonly player: number; readonly charm: Charm }
  | { readonly is: "dropped"; readonly player: number }
  | { readonly is: "captured"; readonly team: number }
  | { readonly is: "lost" }
  | { readonly is: "won"; readonly team: number }
  | { readonly is: "began"; readonly round: number }
  | { readonly is: "downed"; readonly player: number; readonly unit: number; readonly by: number };

/** Ids of a player's avatar and units (from 0), and of the match. */
export function avatarOf(player: number): bigint {
  return objectId(AVATAR, player, 0);
}
export function unitOf(player: number, which: number): bigint {
  return objectId(UNIT, player, 1 + which);
}
export const MATCH_ID = objectId(MATCH, 0, 0);

/** Radians in 1/65,536 turn. */
export function toYaw(radians: number): number {
  return Math.round((radians / (2 * Math.PI)) * 65_536) & 0xffff;
}

export function writeControls(controls: Controls, out: Writer): void {
  writeWalk(controls.walk, out);
  out.option(controls.fire, (tick) => out.u32(tick));
  const { hands } = controls;
  if (typeof hands === "string") {
    out.u32(WEAPONS.indexOf(hands));
  } else {
    out.u32(3);
    out.u8(hands.unit);
  }
}

function writeWalk({ forward, strafe, yaw }: Walk, out: Writer): void {
  const key = (v: number): number => Math.min(Math.max(Math.round(v), -127), 127);
  out.i8(key(forward));
  out.i8(key(strafe));
  out.u16(yaw);
}

export function readControls(r: Reader): Controls {
  const walk = { forward: r.i8(), strafe: r.i8(), yaw: r.u16() };
  const fire = r.option(() => r.u32());
  const hands = r.u32();
  if (hands === 3) return { walk, fire, hands: { unit: r.u8() } };
  return { walk, fire, hands: named(WEAPONS, hands) as Hands };
}

export function writeAction(action: Action, out: Writer): void {
  switch (action.is) {
    case "take":
      return out.u32(4);
    case "drop":
      return out.u32(5);
    case "order":
      out.u32(6);
      return out.u16(action.target);
    case "follow":
      return out.u32(7);
    case "stay":
      return out.u32(8);
  }
}

/** Reads one event; throws `ReadError`. */
export function readEvent(r: Reader): Event {
  const variant = r.u32();
  switch (variant) {
    case 0:
      return readShot(r);
    case 1:
      return { is: "died", player: r.u32(), by: r.u32(), weapon: named(WEAPONS, r.u32()) };
    case 2:
      return { is: "back", player: r.u32() };
    case 3:
      return { is: "taken", player: r.u32(), charm: named(CHARMS, r.u32()) };
    case 4:
      return { is: "dropped", player: r.u32() };
    case 5:
      return { is: "captured", team: r.u8() };
    case 6:
      return { is: "lost" };
    case 7:
      return { is: "won", team: r.u8() };
    case 8:
      return { is: "began", round: r.u16() };
    case 9:
      return { is: "downed", player: r.u32(), unit: r.u8(), by: r.u32() };
    default:
      throw new ReadError(`an unknown event ${variant}`);
  }
}

function readShot(r: Reader): Event {
  const [player, unit, weapon] = [r.u32(), r.u8(), named(WEAPONS, r.u32())];
  const [yaw, length, hits] = [r.u16(), r.u8(), r.u8()];
  return {
    is: "shot", player, unit: unit === 0 ? null : unit - 1, weapon, yaw: (yaw / 1024) * 2 * Math.PI, length: length / 4, hits,
  };
}

function named<T>(all: readonly T[], at: number): T {
  const found = all[at];
  if (found === undefined) throw new ReadError(`an unknown variant ${at}`);
  return found;
}
