/** Where units are: on a march only the order is told, and everybody works the way out. */

import { Ways } from '@foveate/client/arena';
import type { ArenaFields } from '../../scene/arena.js';

/** Duties, by their numbers in a unit's state. */
export const DUTIES = ['guard', 'march', 'follow', 'join', 'down'] as const;
export const MARCH = 1;
export const JOIN = 3;
export const DOWN = 4;

/** Steps of a place in a unit. */
const SUBUNITS = 256;

interface Walker {
  x: number;
  y: number;
  yaw: number;
  lanes: Int32Array;
}

export class UnitPlaces {
  constructor(
    private readonly fields: ArenaFields,
    private readonly ways: Ways,
    private readonly hz: number,
  ) {}

  /** Puts a unit where it is at a tick (with its fraction). */
  put(unit: Walker, tick: number): void {
    const { pos, duty, target, since } = this.fields.unit;
    const { lanes } = unit;
    const now = duty(lanes);
    if (now !== MARCH && now !== JOIN) return;
    const from: [number, number] = [lanes[pos.at]! / SUBUNITS, lanes[pos.at + 1]! / SUBUNITS];
    const [x, y] = this.ways.unitAt(from, target(lanes), since(lanes) >>> 0, tick, this.hz);
    if (x !== unit.x || y !== unit.y) unit.yaw = Math.atan2(y - unit.y, x - unit.x);
    [unit.x, unit.y] = [x, y];
  }
}
