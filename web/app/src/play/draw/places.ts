/** Bases with their progress, and items on the ground. */

import { Container, Graphics } from "pixi.js";
import { SpritePool } from "../../scene/pool.js";
import type { Textures } from "../../scene/textures.js";
import type { Palette } from "../../ui/theme.js";
import type { Sight } from "../sight.js";

/** Avatars within this distance take part in capturing a base, in units. */
export const BASE_RADIUS = 6;
const TAKEN = 100;
/** Corners of a whole circle. */
const ARC_STEPS = 72;

export class Places {
  readonly layer = new Container();
  private readonly graphics = new Graphics();
  private readonly items: SpritePool<bigint>;
  private readonly glows: SpritePool<bigint>;

  private readonly areas: SpritePool<bigint>;
  private readonly edges: SpritePool<bigint>;
  private readonly middles: SpritePool<bigint>;

  constructor(private readonly pictures: Textures) {
    const pool = (): SpritePool<bigint> => {
      const layer = new Container();
      this.layer.addChild(layer);
      return new SpritePool(layer);
    };
    this.areas = pool();
    this.edges = pool();
    this.layer.addChild(this.graphics);
    this.middles = pool();
    this.glows = pool();
    this.items = pool();
  }

  draw(sight: Sight, colours: Palette, now: number): void {
    const g = this.graphics.clear();
    for (const pool of [this.areas, this.edges, this.middles]) pool.begin();
    for (const base of sight.bases) {
      const owner = colours.teams[base.team];
      const progress = sight.fields.base.progress(base.lanes);
      const leader = colours.teams[progress < 0 ? 1 : progress > 0 ? 2 : 0];
      const area = this.areas.takeLarge(base.id, this.pictures.disc, BASE_RADIUS);
      const edge = this.edges.takeLarge(base.id, this.pictures.hoop, BASE_RADIUS);
      const middle = this.middles.take(base.id, this.pictures.unit, 0.9);
      for (const sprite of [area, edge, middle]) {
        sprite.position.set(base.x, base.y);
        sprite.tint = owner;
      }
      area.alpha = base.team === 0 ? 0.08 : 0.16;
      edge.alpha = 0.7;
      const share = Math.abs(progress) / TAKEN;
      if (share > 0) {
        progressArc(g, base, share);
        g.stroke({ color: leader, width: 0.6, cap: "round", join: "round" });
      }
    }
    for (const pool of [this.areas, this.edges, this.middles]) pool.end();
    this.drawItems(sight, colours, now);
  }

  private drawItems(sight: Sight, colours: Palette, now: number): void {
    this.items.begin();
    this.glows.begin();
    const pulse = 1 + 0.08 * Math.sin(now / 300);
    for (const item of sight.items) {
      const holder = sight.fields.item.holder(item.lanes);
      const by = holder === 0 ? undefined : sight.avatarOf(holder);
      // An item that is carried is small and drawn at its holder.
      if (holder !== 0 && !by) continue;
      const isShield = sight.fields.item.charm(item.lanes) === 1;
      const colour = isShield ? colours.accent : colours.warn;
      const picture = isShield ? this.pictures.shield : this.pictures.blade;
      const sprite = this.items.take(item.id, picture, by ? 0.55 : 0.95 * pulse);
      sprite.position.set(by ? by.x - 1.1 : item.x, by ? by.y - 1.1 : item.y);
      sprite.tint = colour;
      if (by) continue;
      const glow = this.glows.take(item.id, this.pictures.glow, 2.1 * pulse);
      glow.position.set(item.x, item.y);
      glow.tint = colour;
      glow.alpha = 0.35;
    }
    this.items.end();
    this.glows.end();
  }
}

/** From the top, clockwise on the screen. Pixi's own arcs are too coarse at the world's scale. */
function progressArc(g: Graphics, at: { x: number; y: number }, share: number): void {
  const steps = Math.max(2, Math.ceil(share * ARC_STEPS));
  for (let step = 0; step <= steps; step += 1) {
    const angle = Math.PI / 2 - (step / steps) * share * 2 * Math.PI;
    const [x, y] = [at.x + Math.cos(angle) * BASE_RADIUS, at.y + Math.sin(angle) * BASE_RADIUS];
    if (step === 0) g.moveTo(x, y);
    else g.lineTo(x, y);
  }
}
