/** What players say and hear, as the arena's postcard bytes: the tables of `docs/ARENA.md`. */

import { ReadError, type Reader, Writer } from '@foveate/client';

export interface Walk {
  /** −127 to 127. */
  forward: number;
  strafe: number;
  /** In 1/65,536 turn. */
  yaw: number;
}

/** A weapon's number, or the player's unit that is steered. */
export type Hands = { weapon: 0 | 1 | 2 } | { unit: number };

export interface Controls {
  walk: Walk;
  /** The tick that the player saw when they fired. */
  fire: number | null;
  hands: Hands;
}

export type Action =
  | { type: 'take' }
  | { type: 'drop' }
  | { type: 'order'; target: number }
  | { type: 'follow' }
  | { type: 'stay' };

export type ArenaEvent =
  | { type: 'shot'; player: number; unit: number; weapon: number; yaw: number; length: number; hits: number }
  | { type: 'died'; player: number; by: number; weapon: number }
  | { type: 'back'; player: number }
  | { type: 'taken'; player: number; charm: number }
  | { type: 'dropped'; player: number }
  | { type: 'captured'; team: number }
  | { type: 'lost' }
  | { type: 'won'; team: number }
  | { type: 'began'; round: number }
  | { type: 'downed'; player: number; unit: number; by: number };

const TURN_STEPS = 1_024;
const HANDS_UNIT = 3;

export function encodeControls({ walk, fire, hands }: Controls): Uint8Array {
  const writer = new Writer();
  writer.i8(walk.forward);
  writer.i8(walk.strafe);
  writer.u16(walk.yaw);
  writer.option(fire, (tick) => writer.u32(tick));
  if ('unit' in hands) {
    writer.u32(HANDS_UNIT);
    writer.u8(hands.unit);
  } else {
    writer.u32(hands.weapon);
  }
  return writer.finish();
}

const ACTIONS = { take: 4, drop: 5, order: 6, follow: 7, stay: 8 } as const;

export function encodeAction(action: Action, writer: Writer): void {
  writer.u32(ACTIONS[action.type]);
  if (action.type === 'order') writer.u16(action.target);
}

export function decodeEvent(reader: Reader): ArenaEvent {
  const variant = reader.u32();
  switch (variant) {
    case 0:
      return {
        type: 'shot',
        player: reader.u32(),
        unit: reader.u8(),
        weapon: reader.u32(),
        yaw: (reader.u16() / TURN_STEPS) * 2 * Math.PI,
        length: reader.u8() / 4,
        hits: reader.u8(),
      };
    case 1:
      return { type: 'died', player: reader.u32(), by: reader.u32(), weapon: reader.u32() };
    case 2:
      return { type: 'back', player: reader.u32() };
    case 3:
      return { type: 'taken', player: reader.u32(), charm: reader.u32() };
    case 4:
      return { type: 'dropped', player: reader.u32() };
    case 5:
      return { type: 'captured', team: reader.u8() };
    case 6:
      return { type: 'lost' };
    case 7:
      return { type: 'won', team: reader.u8() };
    case 8:
      return { type: 'began', round: reader.u16() };
    case 9:
      return { type: 'downed', player: reader.u32(), unit: reader.u8(), by: reader.u32() };
    default:
      throw new ReadError(`the arena has no event ${variant}`);
  }
}
