/** The whole map: the true state, and the picked observer's fan and replicas with their errors. */

import { AVATAR, BASE, ITEM, UNIT } from "@foveate/client/arena";
import { Container, Graphics, type Sprite } from "pixi.js";
import type { Glance } from "../scene/arena.js";
import { Camera } from "../scene/camera.js";
import { Ground, type MapShape } from "../scene/ground.js";
import { pan } from "../scene/pan.js";
import { SpritePool } from "../scene/pool.js";
import { stage, type Stage } from "../scene/stage.js";
import { textures, type Textures } from "../scene/textures.js";
import type { Cleanup } from "../ui/dom.js";
import { palette, type Palette } from "../ui/theme.js";
import { fan } from "./fan.js";
import { between, betweenAngles, HANDOFF_SHOWN, type Model, type Moving } from "./model.js";
import type { Replica, View } from "./protocol.js";
import { colourOf, onMap } from "./regions.js";
import { SHADES, shadeOf } from "./staleness.js";

/** Radius of a base's circle, in units: the arena's own. */
const BASE_RADIUS = 6;
/** How near to an avatar a click must be, in pixels. */
const PICK_RADIUS = 22;
/** Errors below this are drawn without a line, in units. */
const LINE_FROM = 0.05;
/** The least size of avatars on a map of any size, in pixels. */
const LEAST_PIXELS = 3.6;

export interface ObservatoryMap {
  /** Shows the whole map again. */
  fit: () => void;
  /** Numbers of what is drawn, for tests. */
  drawn: () => { truth: number; ghosts: number; sectors: number; follows: boolean; regions: number };
  follow: (on: boolean) => void;
}

export interface MapOptions {
  model: Model;
  shape: MapShape;
  glance: (id: string, kind: number) => Glance;
  onPick: (player: number | null) => void;
}

export async function observatoryMap(
  host: HTMLElement,
  options: MapOptions,
  cleanup: Cleanup,
): Promise<ObservatoryMap | null> {
  const on = await stage(host, cleanup, true);
  return on && new Picture(on, host, options, cleanup);
}

class Picture implements ObservatoryMap {
  private readonly world = new Container();
  private readonly fans = new Container();
  private readonly lines = new Graphics();
  private readonly marks = new Graphics();
  private readonly borders = new Graphics();
  private readonly flashes = new Graphics();
  private readonly areas: SpritePool<string>;
  private readonly truth: SpritePool<string>;
  private readonly ghosts: SpritePool<string>;
  private readonly camera: Camera;
  private readonly pictures: Textures;
  private colours: Palette = palette();
  private fanOf = "";
  private sectors = 0;
  private regions = 0;
  private bordersOf: unknown = null;
  private follows = false;
  private touched = false;

  constructor(
    on: Stage,
    host: HTMLElement,
    private readonly options: MapOptions,
    cleanup: Cleanup,
  ) {
    this.camera = new Camera(on.width, on.height);
    this.pictures = textures(on.app.renderer);
    const ground = new Ground(options.shape);
    const layers = { areas: new Container(), truth: new Container(), ghosts: new Container() };
    this.areas = new SpritePool(layers.areas);
    this.truth = new SpritePool(layers.truth);
    this.ghosts = new SpritePool(layers.ghosts);
    const side = options.shape.side;
    // A fan may reach far beyond the map; this hides that part.
    const edge = new Graphics().rect(0, 0, side, side).fill(0xffffff);
    this.fans.mask = edge;
    this.world.addChild(ground.layer, edge, this.borders, layers.areas, this.fans, this.marks, this.lines);
    this.world.addChild(layers.ghosts, layers.truth, this.flashes);
    on.app.stage.addChild(this.world);
    on.onPalette((colours) => {
      this.colours = colours;
      ground.draw(colours);
      this.fanOf = "";
    });
    this.fit();
    pan(
      on.app.canvas,
      {
        camera: this.camera,
        limits: () => [0.2, 60],
        onClick: (x, y) => this.click(x, y),
        onMove: () => {
          this.touched = true;
          this.follows = false;
        },
      },
      cleanup,
    );
    const resize = new ResizeObserver(() => this.touched || this.fit());
    resize.observe(host);
    cleanup.add(() => resize.disconnect());
    on.app.ticker.add(() => this.frame(performance.now()));
  }

  fit(): void {
    this.touched = false;
    this.follows = false;
    this.camera.fit(this.options.shape.side);
  }

  follow(on: boolean): void {
    this.follows = on;
    if (on && this.camera.scale < 5) this.camera.scale = 5;
  }

  drawn(): { truth: number; ghosts: number; sectors: number; follows: boolean; regions: number } {
    const { truth, ghosts, sectors, follows, regions } = this;
    return { truth: truth.size, ghosts: ghosts.size, sectors, follows, regions };
  }

  private frame(now: number): void {
    const { model } = this.options;
    const share = model.progress(now);
    const pivot = model.observer?.pivots[0];
    if (this.follows && pivot) {
      this.camera.x += (pivot[0] - this.camera.x) * 0.12;
      this.camera.y += (pivot[1] - this.camera.y) * 0.12;
    }
    this.camera.place(this.world);
    this.drawRegions();
    this.drawHandoffs(now);
    this.drawFan();
    this.drawTruth(share);
    this.drawReplicas(share);
  }

  private drawTruth(share: number): void {
    const { model, glance } = this.options;
    const picked = this.pickedObject();
    const least = LEAST_PIXELS / this.camera.scale;
    this.marks.clear();
    this.truth.begin();
    this.areas.begin();
    for (const [id, moving] of model.truth) {
      const seen = glance(id, moving.kind);
      const sprite = this.sprite(id, moving, seen, least);
      if (!sprite) continue;
      put(sprite, moving, share);
      sprite.tint = this.colours.teams[seen.team];
      // Objects that the observer does not know, and dead ones, are drawn faintly.
      const known = model.observer === null || id === picked || model.replicas.has(id);
      sprite.alpha = (known ? 1 : 0.35) * (seen.alive ? 1 : 0.3);
      if (moving.kind === BASE) {
        const area = this.areas.takeLarge(id, this.pictures.disc, BASE_RADIUS);
        put(area, moving, share);
        area.tint = sprite.tint;
        area.alpha = 0.18;
      }
      if (id === picked) {
        this.marks
          .circle(sprite.x, sprite.y, Math.max(2.2, least * 2.2))
          .stroke({ color: this.colours.ink, width: Math.max(0.25, 1.6 / this.camera.scale) });
      }
    }
    this.truth.end();
    this.areas.end();
  }

  private pickedObject(): string | undefined {
    const { picked, players } = this.options.model;
    return picked === null ? undefined : players.get(picked)?.object;
  }

  private sprite(id: string, moving: Moving, seen: Glance, least: number): Sprite | null {
    switch (moving.kind) {
      case AVATAR:
        return this.truth.take(id, this.pictures.avatar, Math.max(1, least));
      case UNIT:
        return this.truth.take(id, this.pictures.unit, Math.max(0.9, least * 0.8));
      case BASE:
        return this.truth.takeLarge(id, this.pictures.hoop, BASE_RADIUS);
      case ITEM:
        return this.truth.take(
          id,
          seen.shield ? this.pictures.shield : this.pictures.blade,
          Math.max(0.8, least * 0.8),
        );
      default:
        return null;
    }
  }

  private drawReplicas(share: number): void {
    const { model } = this.options;
    const picked = this.pickedObject();
    this.lines.clear();
    this.ghosts.begin();
    const least = LEAST_PIXELS / this.camera.scale;
    const width = Math.max(0.16, 1.4 / this.camera.scale);
    const byShade: [number, number, number, number][][] = SHADES.map(() => []);
    for (const [id, { moving, replica }] of model.replicas) {
      const truth = model.truth.get(id);
      // The player predicts its own avatar: a ghost would only show the latency.
      if (id === picked) continue;
      if (!truth || (truth.kind !== AVATAR && truth.kind !== UNIT)) continue;
      const ghost = this.ghost(id, replica, least);
      put(ghost, moving, share);
      // Out of interest there are no bounds, so there is no error.
      if (replica[4] < LINE_FROM || replica[8] === 1) continue;
      const x = between(truth.fromX, truth.x, share);
      const y = between(truth.fromY, truth.y, share);
      byShade[shadeOf(replica[6])]!.push([ghost.x, ghost.y, x, y]);
    }
    byShade.forEach((lines, shade) => {
      if (lines.length === 0) return;
      for (const [x0, y0, x1, y1] of lines) this.lines.moveTo(x0, y0).lineTo(x1, y1);
      this.lines.stroke({ color: SHADES[shade]!, width, cap: "round" });
    });
    this.ghosts.end();
  }

  private ghost(id: string, replica: Replica, least: number): Sprite {
    const ghost = this.ghosts.take(id, this.pictures.ghost, Math.max(1.35, least * 1.5));
    ghost.tint = SHADES[shadeOf(replica[6])]!;
    ghost.alpha = [1, 0.25, 0.7][replica[8]]!;
    return ghost;
  }

  /** Tints regions by owner, with an edge in the standby's colour. Drawn once for each message. */
  private drawRegions(): void {
    const { model, shape } = this.options;
    if (model.regions === this.bordersOf) return;
    this.bordersOf = model.regions;
    this.borders.clear();
    this.regions = 0;
    for (const region of model.regions?.regions ?? []) {
      const area = onMap(region.rect, shape.side);
      if (area === null) continue;
      this.regions += 1;
      this.borders.rect(...area).fill({ color: colourOf(region.server), alpha: region.acting === false ? 0.04 : 0.14 });
      this.borders.rect(...area).stroke({ color: colourOf(region.standby ?? region.server), width: 0.6, alpha: 0.7, alignment: 1 });
    }
  }

  /** A ring that grows and fades where an object changed regions, in the colour of the new owner. */
  private drawHandoffs(now: number): void {
    const { model } = this.options;
    this.flashes.clear();
    const owners = new Map(model.regions?.regions.map(({ region, server }) => [region, server]));
    for (const { handoff, at } of model.recentHandoffs(now)) {
      const [, , to, x, y] = handoff;
      const share = (now - at) / HANDOFF_SHOWN;
      const width = Math.max(0.2, 2 / this.camera.scale);
      this.flashes.circle(x, y, 1 + 4 * share).stroke({ color: colourOf(owners.get(to) ?? 0), width, alpha: 1 - share });
    }
  }

  /** Draws the fan once for a view; then it moves with its pivots. */
  private drawFan(): void {
    const { observer } = this.options.model;
    const key = observer ? JSON.stringify(observer.view) + observer.pivots.length : "";
    if (key !== this.fanOf) {
      this.fanOf = key;
      for (const old of this.fans.removeChildren()) old.destroy();
      this.sectors = 0;
      for (const _ of observer?.pivots ?? []) this.fans.addChild(this.shape(observer!.view));
    }
    observer?.pivots.forEach(([x, y, yaw], index) => {
      const shape = this.fans.children[index];
      if (!shape) return;
      const squares = observer.view.policy === "zoned";
      const side = observer.view.side ?? 1;
      shape.position.set(
        squares ? Math.floor(x / side) * side : glide(shape.x, x),
        squares ? Math.floor(y / side) * side : glide(shape.y, y),
      );
      shape.rotation = squares ? 0 : betweenAngles(shape.rotation, yaw, 0.35);
    });
  }

  private shape(view: View): Graphics {
    const g = new Graphics();
    const { accent } = this.colours;
    const parts = fan(view, this.options.shape.side * 1.5);
    const edge = { color: accent, width: 0.3, alpha: 0.45 };
    for (const sector of parts.sectors) {
      const { inner, outer, from, to, strictness } = sector;
      this.sectors += 1;
      if (to - from >= 2 * Math.PI - 1e-6 && inner === 0) {
        g.circle(0, 0, outer);
      } else {
        g.moveTo(inner * Math.cos(from), inner * Math.sin(from));
        g.arc(0, 0, outer, from, to);
        if (inner > 0) g.arc(0, 0, inner, to, from, true);
        else g.lineTo(0, 0);
        g.closePath();
      }
      g.fill({ color: accent, alpha: 0.04 + 0.26 * strictness ** 2 }).stroke(edge);
    }
    if (parts.squares) {
      const { side, aoi } = parts.squares;
      this.sectors += 1;
      g.rect(0, 0, side, side).fill({ color: accent, alpha: 0.18 }).stroke(edge);
      g.rect(-aoi, -aoi, side + 2 * aoi, side + 2 * aoi).stroke(edge);
    }
    if (parts.everything) {
      this.sectors += 1;
      const reach = this.options.shape.side * 1.5;
      g.circle(0, 0, reach).fill({ color: accent, alpha: 0.1 });
    }
    return g;
  }

  private click(screenX: number, screenY: number): void {
    const { model, onPick } = this.options;
    let nearest: { player: number; distance: number } | null = null;
    for (const [id, moving] of model.truth) {
      const player = model.byObject.get(id);
      if (!player) continue;
      const dx = this.camera.screenX(moving.x) - screenX;
      const dy = this.camera.screenY(moving.y) - screenY;
      const distance = Math.hypot(dx, dy);
      if (distance < (nearest?.distance ?? PICK_RADIUS)) nearest = { player: player.player, distance };
    }
    onPick(nearest?.player ?? null);
  }
}

function put(sprite: Sprite, moving: Moving, share: number): void {
  sprite.position.set(between(moving.fromX, moving.x, share), between(moving.fromY, moving.y, share));
  sprite.rotation = betweenAngles(moving.fromYaw, moving.yaw, share);
}

/** Moves the fan smoothly to its pivot, except for jumps. */
const glide = (from: number, to: number): number => (Math.abs(to - from) > 6 ? to : from + (to - from) * 0.35);
