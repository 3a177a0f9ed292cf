/** The arena as the client knows a game: bytes, and the rule of one's own avatar. */

import type { GameAdapter, Schema } from '@foveate/client';
import { type CollisionMap, step } from '@foveate/client/arena';
import type { ArenaFields } from '../../scene/arena.js';
import {
  type Action,
  type ArenaEvent,
  type Controls,
  decodeEvent,
  encodeAction,
  encodeControls,
} from './messages.js';
import { CHANGE_MS, LONGEST_MS, ticks, ticksLeft, WEAPONS } from './weapons.js';

/** Steps of velocity and of yaw in one step of their lanes. */
const VELOCITY_STEP = 64;
const YAW_STEP = 64;

export function arenaGame(
  schema: Schema,
  fields: ArenaFields,
  map: CollisionMap,
  hz: number,
): GameAdapter<Controls, Action, ArenaEvent> {
  return {
    schema,
    encodeInput: encodeControls,
    encodeAction,
    decodeEvent,
    predict: (state, input, tick) => predicted(fields, map, hz, state, input, tick),
  };
}

/** `docs/ARENA.md`, "Prediction of the own avatar", step by step. */
function predicted(
  fields: ArenaFields,
  map: CollisionMap,
  hz: number,
  state: Int32Array,
  { walk, fire, hands }: Controls,
  tick: number,
): Int32Array {
  const { avatar } = fields;
  if (avatar.health(state) === 0) return state;
  const steers = 'unit' in hands;
  const facing = avatar.yaw(state) * YAW_STEP;
  const body = step(
    map,
    {
      place: { x: state[avatar.pos.at]!, y: state[avatar.pos.at + 1]! },
      velocity: { x: avatar.vx(state) * VELOCITY_STEP, y: avatar.vy(state) * VELOCITY_STEP },
      yaw: facing,
    },
    steers ? { forward: 0, strafe: 0, yaw: facing } : walk,
  );
  state[avatar.pos.at] = body.place.x;
  state[avatar.pos.at + 1] = body.place.y;
  state[avatar.vx.at] = Math.trunc(body.velocity.x / VELOCITY_STEP);
  state[avatar.vy.at] = Math.trunc(body.velocity.y / VELOCITY_STEP);
  state[avatar.yaw.at] = Math.round(body.yaw / YAW_STEP) % 1_024;
  if (steers) return state;
  const left = ticksLeft(avatar.ready(state), tick, ticks(LONGEST_MS, hz));
  if (avatar.weapon(state) !== hands.weapon) {
    state[avatar.weapon.at] = hands.weapon;
    state[avatar.ready.at] = (tick + Math.max(left, ticks(CHANGE_MS, hz))) & 0xffff;
  } else if (fire !== null && left === 0) {
    state[avatar.ready.at] = (tick + ticks(WEAPONS[hands.weapon]!.cooldownMs, hz)) & 0xffff;
  }
  return state;
}
