/** The map: ground, a faint grid, walls. Drawn once; redrawn when the colours change. */

import { Container, Graphics } from "pixi.js";
import type { Palette } from "../ui/theme.js";

/** The part of the arena's document that both pages need. */
export interface MapShape {
  side: number;
  /** Outlines in world units: x0, y0, x1, y1, … */
  obstacles: number[][];
}

/** Width of the grid's cells, in units: a visual measure of distance. */
const CELL = 10;
/** Offset of the walls' shadows, in units. */
const SHADE = 0.55;

export class Ground {
  readonly layer = new Container();
  private readonly graphics = new Graphics();

  constructor(private readonly map: MapShape) {
    this.layer.addChild(this.graphics);
  }

  draw(palette: Palette): void {
    const g = this.graphics.clear();
    const { side, obstacles } = this.map;
    for (let at = CELL; at < side; at += CELL) {
      g.moveTo(at, 0).lineTo(at, side).moveTo(0, at).lineTo(side, at);
    }
    g.stroke({ color: palette.grid, width: 0.12 });
    g.rect(0, 0, side, side).stroke({ color: palette.wallEdge, width: 0.5 });
    for (const outline of obstacles) {
      const shifted = outline.map((v, i) => (i % 2 === 0 ? v + SHADE : v - SHADE));
      g.poly(shifted).fill(palette.wallShade);
    }
    for (const outline of obstacles) {
      g.poly(outline).fill(palette.wall).stroke({ color: palette.wallEdge, width: 0.18, alignment: 1 });
    }
  }
}
