/** Avatars and units: shadow, body, health. All are drawn from a few pictures, in a few batches. */

import { Container, type Sprite, Texture } from "pixi.js";
import { SpritePool } from "../../scene/pool.js";
import { DETAIL, type Textures } from "../../scene/textures.js";
import type { Palette } from "../../ui/theme.js";
import type { Seen, Sight } from "../sight.js";

/** How long a hit is shown, in milliseconds. */
const HURT_MS = 160;
const FULL = { avatar: 100, unit: 60 };
/** A health bar, in units. */
const BAR = { width: 2, height: 0.22, above: 1.5 };

export class Bodies {
  readonly layer = new Container();
  private readonly shadows: SpritePool<bigint>;
  private readonly rings: SpritePool<bigint>;
  private readonly units: SpritePool<bigint>;
  private readonly avatars: SpritePool<bigint>;
  private readonly grooves: SpritePool<bigint>;
  private readonly bars: SpritePool<bigint>;

  constructor(private readonly pictures: Textures) {
    const pool = (): SpritePool<bigint> => {
      const layer = new Container();
      this.layer.addChild(layer);
      return new SpritePool(layer);
    };
    this.shadows = pool();
    this.rings = pool();
    this.units = pool();
    this.avatars = pool();
    this.grooves = pool();
    this.bars = pool();
  }

  /** Number of bodies drawn. */
  get count(): number {
    return this.avatars.size;
  }

  draw(sight: Sight, colours: Palette, selected: ReadonlySet<bigint>, now: number): void {
    const pools = [this.shadows, this.rings, this.units, this.avatars, this.grooves, this.bars];
    for (const pool of pools) pool.begin();
    for (const seen of sight.units) {
      const isDown = sight.places.dutyOf(seen.lanes) === "down";
      this.body(seen, this.units.take(seen.id, this.pictures.unit, 0.85), colours, now);
      if (isDown) continue;
      this.health(seen, FULL.unit, colours);
      if (selected.has(seen.id)) this.ring(seen, 1.5, colours.ink);
    }
    for (const seen of sight.avatars) {
      this.body(seen, this.avatars.take(seen.id, this.pictures.avatar, 1), colours, now);
      if (seen.health === 0) continue;
      this.shadow(seen);
      this.health(seen, FULL.avatar, colours);
      if (seen === sight.me) this.ring(seen, 1.42, colours.ink);
    }
    for (const pool of pools) pool.end();
  }

  private body(seen: Seen, sprite: Sprite, colours: Palette, now: number): void {
    sprite.position.set(seen.x, seen.y);
    sprite.rotation = seen.yaw;
    const isHurt = now - seen.hurtAt < HURT_MS && seen.health > 0;
    sprite.tint = colours.teams[seen.team];
    // Avatars that were hit blink; frozen ones are half transparent; dead ones fade.
    sprite.alpha = seen.health === 0 ? 0.22 : seen.frozen || isHurt ? 0.5 : 1;
  }

  private shadow(seen: Seen): void {
    const sprite = this.shadows.take(seen.id, this.pictures.glow, 1.3);
    sprite.position.set(seen.x + 0.22, seen.y - 0.3);
    sprite.tint = 0;
    sprite.alpha = 0.28;
  }

  private ring(seen: Seen, radius: number, colour: number): void {
    const sprite = this.rings.take(seen.id, this.pictures.ring, radius);
    sprite.position.set(seen.x, seen.y);
    sprite.tint = colour;
    sprite.alpha = 0.8;
  }

  private health(seen: Seen, full: number, colours: Palette): void {
    if (seen.health >= full) return;
    const share = seen.health / full;
    const y = seen.y + BAR.above;
    const groove = this.grooves.take(seen.id, Texture.WHITE, DETAIL);
    groove.scale.set(BAR.width / Texture.WHITE.width, BAR.height / Texture.WHITE.height);
    groove.position.set(seen.x, y);
    groove.tint = colours.ink;
    groove.alpha = 0.25;
    const bar = this.bars.take(seen.id, Texture.WHITE, DETAIL);
    bar.scale.set((BAR.width * share) / Texture.WHITE.width, BAR.height / Texture.WHITE.height);
    bar.position.set(seen.x - (BAR.width * (1 - share)) / 2, y);
    bar.tint = share > 0.6 ? colours.good : share > 0.3 ? colours.warn : colours.bad;
  }
}
