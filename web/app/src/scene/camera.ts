/** The visible part of the world. The world's y points north, the screen's down. */

import type { Container } from "pixi.js";

export class Camera {
  x = 0;
  y = 0;
  /** Pixels per unit. */
  scale = 8;

  constructor(
    private readonly width: () => number,
    private readonly height: () => number,
  ) {}

  /** Positions a container of world coordinates. */
  place(world: Container): void {
    world.scale.set(this.scale, -this.scale);
    world.position.set(this.screenX(0), this.screenY(0));
  }

  screenX(x: number): number {
    return (x - this.x) * this.scale + this.width() / 2;
  }

  screenY(y: number): number {
    return (this.y - y) * this.scale + this.height() / 2;
  }

  worldX(screenX: number): number {
    return (screenX - this.width() / 2) / this.scale + this.x;
  }

  worldY(screenY: number): number {
    return this.y - (screenY - this.height() / 2) / this.scale;
  }

  /** Zooms so that the point under the pointer stays in place. */
  zoomAt(screenX: number, screenY: number, factor: number, limits: [number, number]): void {
    const [x, y] = [this.worldX(screenX), this.worldY(screenY)];
    this.scale = Math.min(limits[1], Math.max(limits[0], this.scale * factor));
    this.x += x - this.worldX(screenX);
    this.y += y - this.worldY(screenY);
  }

  /** Shows the whole square `0..side`. */
  fit(side: number, margin = 24): void {
    const room = Math.min(this.width(), this.height()) - 2 * margin;
    this.scale = Math.max(0.1, room / side);
    this.x = side / 2;
    this.y = side / 2;
  }
}
