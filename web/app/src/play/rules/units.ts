/** Where units are: on a march only the order is told, and everybody works the way out. */

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

  /** Puts a unit where it is at a tick (with its fraction). */
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

  /** The node that units are sent to by a click on this place. */
  nodeNear(x: number, y: number): number {
    return this.ways.nodeNear([x, y]);
  }
}
