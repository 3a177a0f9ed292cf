/** The weapon's range, and the selection box. */

import type { Weapon } from "@foveate/client/arena";
import { Container, Graphics } from "pixi.js";
import type { Palette } from "../../ui/theme.js";
import { MAKES } from "../rules/weapons.js";

export class AimMark {
  readonly layer = new Container();
  private readonly graphics = new Graphics();

  constructor() {
    this.layer.addChild(this.graphics);
  }

  clear(): void {
    this.graphics.clear();
  }

  /** Draws the aim; `length` is the distance to the first wall. */
  aim(x: number, y: number, angle: number, weapon: Weapon, length: number, ready: boolean, colours: Palette): void {
    const make = MAKES[weapon];
    const alpha = ready ? 0.5 : 0.2;
    const [dx, dy] = [Math.cos(angle), Math.sin(angle)];
    const g = this.graphics;
    if (make.spread > 0) {
      const half = Math.atan(make.spread);
      g.moveTo(x + 1.6 * Math.cos(angle - half), y + 1.6 * Math.sin(angle - half))
        .lineTo(x + length * Math.cos(angle - half), y + length * Math.sin(angle - half))
        .arc(x, y, length, angle - half, angle + half)
        .lineTo(x + 1.6 * Math.cos(angle + half), y + 1.6 * Math.sin(angle + half))
        .stroke({ color: colours.ink, width: 0.09, alpha: alpha * 0.7 });
      return;
    }
    // Dashes, wider apart than they are long.
    for (let at = 1.8; at < length; at += 2.4) {
      const to = Math.min(length, at + 0.8);
      g.moveTo(x + dx * at, y + dy * at).lineTo(x + dx * to, y + dy * to);
    }
    g.stroke({ color: colours.ink, width: 0.1, alpha: alpha * 0.55 });
    g.circle(x + dx * length, y + dy * length, 0.4).stroke({ color: colours.ink, width: 0.12, alpha });
  }

  box(x0: number, y0: number, x1: number, y1: number, colours: Palette): void {
    this.graphics
      .rect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0))
      .fill({ color: colours.accent, alpha: 0.12 })
      .stroke({ color: colours.accent, width: 0.12 });
  }
}
