/** Short effects: shots, flashes, deaths, orders. */

import type { Weapon } from "@foveate/client/arena";
import { Container, Graphics } from "pixi.js";
import { SpritePool } from "../../scene/pool.js";
import type { Textures } from "../../scene/textures.js";
import { MAKES } from "../rules/weapons.js";

interface Flare {
  kind: "shot" | "glow" | "ring";
  weapon: Weapon;
  x: number;
  y: number;
  angle: number;
  /** A shot's length, or a radius. */
  size: number;
  colour: number;
  born: number;
  life: number;
}

/** Most effects at a time; the oldest is replaced. */
const MAX_FLARES = 160;
/** A shot starts at the muzzle, not at the avatar's centre, in units. */
const MUZZLE = 1.15;
/** Width and duration of each weapon's line, in units and milliseconds. */
const LOOKS: Record<Weapon, { width: number; life: number }> = {
  blaster: { width: 0.26, life: 140 },
  scatter: { width: 0, life: 170 },
  lance: { width: 0.5, life: 380 },
  dart: { width: 0.18, life: 120 },
};

export interface Shot {
  weapon: Weapon;
  angle: number;
  length: number;
  hit: boolean;
}

export class Effects {
  readonly layer = new Container();
  private readonly graphics = new Graphics();
  private readonly lights = new Container();
  private readonly glows: SpritePool<number>;
  private readonly flares: Flare[] = [];

  constructor(private readonly pictures: Textures) {
    this.layer.addChild(this.graphics, this.lights);
    this.glows = new SpritePool(this.lights);
  }

  /** On a dark background light is added; on a light one it would be washed out. */
  setDark(isDark: boolean): void {
    this.lights.blendMode = isDark ? "add" : "normal";
    this.lights.alpha = isDark ? 1 : 0.6;
  }

  get count(): number {
    return this.flares.length;
  }

  shot(from: { x: number; y: number }, shot: Shot, colour: number, now: number): void {
    const { weapon, angle, length, hit } = shot;
    const common = { weapon, angle, colour, born: now };
    const [dx, dy] = [Math.cos(angle), Math.sin(angle)];
    const muzzle = { x: from.x + dx * MUZZLE, y: from.y + dy * MUZZLE };
    const size = Math.max(0, length - MUZZLE);
    this.add({ ...common, ...muzzle, kind: "shot", size, life: LOOKS[weapon].life });
    this.add({ ...common, ...muzzle, kind: "glow", size: 1.3, life: 90 });
    const end = { x: from.x + dx * length, y: from.y + dy * length };
    if (MAKES[weapon].spread === 0) {
      this.add({ ...common, ...end, kind: "glow", size: hit ? 1.5 : 0.7, life: hit ? 220 : 120 });
    }
  }

  ring(x: number, y: number, size: number, colour: number, now: number, life = 420): void {
    this.add({ kind: "ring", weapon: "blaster", x, y, angle: 0, size, colour, born: now, life });
  }

  draw(now: number): void {
    const g = this.graphics.clear();
    this.glows.begin();
    let kept = 0;
    for (const flare of this.flares) {
      const age = (now - flare.born) / flare.life;
      if (age >= 1) continue;
      this.flares[kept] = flare;
      if (flare.kind === "shot") line(g, flare, age);
      else if (flare.kind === "ring") {
        g.circle(flare.x, flare.y, flare.size * (0.3 + 0.7 * Math.sqrt(age)));
        g.stroke({ color: flare.colour, width: 0.3 * (1 - age) + 0.05, alpha: 1 - age });
      } else {
        const sprite = this.glows.take(kept, this.pictures.glow, flare.size * (1 + age * 0.5));
        sprite.position.set(flare.x, flare.y);
        sprite.tint = flare.colour;
        sprite.alpha = 0.9 * (1 - age);
      }
      kept += 1;
    }
    this.flares.length = kept;
    this.glows.end();
  }

  private add(flare: Flare): void {
    if (this.flares.length >= MAX_FLARES) this.flares.shift();
    this.flares.push(flare);
  }
}

function line(g: Graphics, flare: Flare, age: number): void {
  const { x, y, angle, size, colour, weapon } = flare;
  const spread = MAKES[weapon].spread;
  if (spread > 0) {
    const half = Math.atan(spread);
    g.moveTo(x, y)
      .arc(x, y, size, angle - half, angle + half)
      .closePath()
      .fill({ color: colour, alpha: 0.35 * (1 - age) });
    return;
  }
  // A lance's beam stays and becomes thinner; the others' line follows its head.
  const tail = weapon === "lance" ? 0 : age * 0.7;
  g.moveTo(x + Math.cos(angle) * size * tail, y + Math.sin(angle) * size * tail)
    .lineTo(x + Math.cos(angle) * size, y + Math.sin(angle) * size)
    .stroke({ color: colour, width: LOOKS[weapon].width * (1 - age * 0.6), alpha: 1 - age, cap: "round" });
}
