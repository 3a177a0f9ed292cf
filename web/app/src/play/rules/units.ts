/** Places of units: while a unit marches only its order is sent, and the client computes its way. */

import { DUTIES, type Duty, type Ways } from "@foveate/client/arena";
import type { ArenaFields } from "../../scene/arena.js";

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
  ) {}

  dutyOf(lanes: Int32Array): Duty {
    return DUTIES[this.fields.unit.duty(lanes)] ?? "guard";
  }

  /** Sets a unit's place at a tick (with its fraction). */
  put(unit: Walker, tick: number): void {
    const { pos, target, since } = this.fields.unit;
    const { lanes } = unit;
    const duty = this.dutyOf(lanes);
    if (duty !== "march" && duty !== "join") return;
    const from = [lanes[pos.at]!, lanes[pos.at + 1]!] as const;
    const way = (at: number): readonly [number, number] =>
      this.ways.unitAt(from, target(lanes), since(lanes) >>> 0, at).at;
    const [[x, y], [nextX, nextY]] = [way(tick), way(tick + 1)];
    if (x !== nextX || y !== nextY) unit.yaw = Math.atan2(nextY - y, nextX - x);
    [unit.x, unit.y] = [x, y];
  }

  /** The node to which a click on this place sends units. */
  nodeNear(x: number, y: number): number {
    return this.ways.nodeNear([x, y]);
  }
}
