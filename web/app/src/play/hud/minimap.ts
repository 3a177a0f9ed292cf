/** The whole map in a corner: walls are drawn once, the rest a few times a second. */

import type { MapShape } from "../../scene/ground.js";
import { h } from "../../ui/dom.js";
import { onTheme } from "../../ui/theme.js";
import type { Sight } from "../sight.js";

/** Its side, in CSS pixels; the style sheet may show it smaller. */
const SIZE = 176;
/** Time between two drawings, in milliseconds. */
const PACE = 100;

export interface Window {
  x: number;
  y: number;
  width: number;
  height: number;
}

export class Minimap {
  readonly element: HTMLCanvasElement;
  private readonly walls: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D;
  private readonly scale: number;
  private style = getComputedStyle(document.documentElement);
  private drawnAt = 0;

  constructor(private readonly map: MapShape) {
    const pixels = SIZE * 2;
    this.element = h("canvas", {
      class: "minimap",
      width: pixels,
      height: pixels,
      role: "img",
      "aria-label": "Map",
      "data-testid": "minimap",
    });
    this.walls = h("canvas", { width: pixels, height: pixels });
    this.context = this.element.getContext("2d")!;
    this.scale = pixels / map.side;
    this.drawWalls();
  }

  /** Redraws when the colours change; the result stops that. */
  followTheme(): () => void {
    return onTheme(() => {
      this.style = getComputedStyle(document.documentElement);
      this.drawWalls();
    });
  }

  draw(sight: Sight, window: Window, now: number): void {
    if (now - this.drawnAt < PACE) return;
    this.drawnAt = now;
    const { context: c } = this;
    c.clearRect(0, 0, this.element.width, this.element.height);
    c.drawImage(this.walls, 0, 0);
    for (const base of sight.bases) {
      c.fillStyle = this.css(base.team === 0 ? "--no-team" : `--team-${base.team}`);
      c.globalAlpha = 0.4;
      this.dot(base.x, base.y, 6 * this.scale);
      c.globalAlpha = 1;
      this.dot(base.x, base.y, 5);
    }
    for (const seen of sight.avatars) {
      if (seen.health === 0) continue;
      c.fillStyle = this.css(`--team-${seen.team}`);
      c.globalAlpha = seen.frozen ? 0.4 : 1;
      this.dot(seen.x, seen.y, 4);
    }
    c.globalAlpha = 1;
    const { me } = sight;
    if (me) {
      c.strokeStyle = this.css("--ink");
      c.lineWidth = 3;
      c.beginPath();
      c.arc(this.x(me.x), this.y(me.y), 8, 0, 2 * Math.PI);
      c.stroke();
    }
    c.strokeStyle = this.css("--soft");
    c.lineWidth = 2;
    c.strokeRect(
      this.x(window.x),
      this.y(window.y + window.height),
      window.width * this.scale,
      window.height * this.scale,
    );
  }

  private drawWalls(): void {
    const c = this.walls.getContext("2d")!;
    c.clearRect(0, 0, this.walls.width, this.walls.height);
    c.fillStyle = this.css("--ground");
    c.fillRect(0, 0, this.walls.width, this.walls.height);
    c.fillStyle = this.css("--wall");
    for (const outline of this.map.obstacles) {
      c.beginPath();
      for (let i = 0; i < outline.length; i += 2) c.lineTo(this.x(outline[i]!), this.y(outline[i + 1]!));
      c.fill();
    }
  }

  private dot(x: number, y: number, radius: number): void {
    this.context.beginPath();
    this.context.arc(this.x(x), this.y(y), radius, 0, 2 * Math.PI);
    this.context.fill();
  }

  private readonly x = (x: number): number => x * this.scale;
  private readonly y = (y: number): number => (this.map.side - y) * this.scale;
  private css(name: string): string {
    return this.style.getPropertyValue(name).trim();
  }
}
