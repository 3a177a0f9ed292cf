/** Everything on the canvas, in the order in which it is drawn. */

import { Container } from "pixi.js";
import { Camera } from "../scene/camera.js";
import type { MapShape } from "../scene/ground.js";
import type { Stage } from "../scene/stage.js";
import { textures } from "../scene/textures.js";
import { type Palette, palette, theme } from "../ui/theme.js";
import { AimMark } from "./draw/aim.js";
import { Bodies } from "./draw/bodies.js";
import { Effects } from "./draw/effects.js";
import { Names } from "./draw/names.js";
import { Places } from "./draw/places.js";
import type { Sight } from "./sight.js";

/** World units along the screen's mean side. */
const SHOWN_UNITS = 54;
/** Scale when zoomed out. */
const ZOOM = 0.55;
/** How far the camera moves towards the aim, as a share of the distance. */
const AHEAD = 0.16;
const AHEAD_ZOOMED = 0.34;
/** The rate at which the camera follows, per second. */
const FOLLOW = 9;

export class Picture {
  readonly camera: Camera;
  readonly bodies: Bodies;
  readonly effects: Effects;
  readonly aim = new AimMark();
  colours: Palette = palette();
  private readonly world: Container;
  private readonly places: Places;
  private readonly names = new Names();
  private settled = false;

  constructor(
    private readonly stage: Stage,
    /** Contains the ground already. */
    world: Container,
    readonly map: MapShape,
  ) {
    const pictures = textures(stage.app.renderer);
    this.world = world;
    this.camera = new Camera(stage.width, stage.height);
    this.places = new Places(pictures);
    this.bodies = new Bodies(pictures);
    this.effects = new Effects(pictures);
    const layers = [this.places, this.aim, this.bodies, this.effects];
    world.addChild(...layers.map((part) => part.layer));
    stage.app.stage.addChild(this.names.layer);
    stage.onPalette((colours) => {
      this.colours = colours;
      this.effects.setDark(theme() === "dark");
    });
  }

  /** Follows a point, looking ahead towards the aim. */
  follow(
    focus: { x: number; y: number },
    pointer: { x: number; y: number },
    options: { zoomed: boolean; seconds: number; jumps: boolean },
  ): void {
    const { camera, stage } = this;
    const [width, height] = [stage.width(), stage.height()];
    const scale = (Math.sqrt(width * height) / SHOWN_UNITS) * (options.zoomed ? ZOOM : 1);
    const ahead = options.zoomed ? AHEAD_ZOOMED : AHEAD;
    const goalX = focus.x + ((pointer.x - width / 2) / scale) * ahead;
    const goalY = focus.y - ((pointer.y - height / 2) / scale) * ahead;
    const share = this.settled && !options.jumps ? 1 - Math.exp(-FOLLOW * options.seconds) : 1;
    this.settled = true;
    camera.scale += (scale - camera.scale) * share;
    camera.x += (goalX - camera.x) * share;
    camera.y += (goalY - camera.y) * share;
  }

  draw(sight: Sight, nameOf: (player: number) => string, selected: ReadonlySet<bigint>, now: number): void {
    const { camera, colours, stage } = this;
    camera.place(this.world);
    this.places.draw(sight, colours, now);
    this.bodies.draw(sight, colours, selected, now);
    this.effects.draw(now);
    const size = { width: stage.width(), height: stage.height() };
    const others = sight.avatars.filter((seen) => seen !== sight.me);
    this.names.draw(others, nameOf, camera, size, colours);
  }

  /** The part of the world that is visible. */
  window(): { x: number; y: number; width: number; height: number } {
    const { camera, stage } = this;
    const [width, height] = [stage.width() / camera.scale, stage.height() / camera.scale];
    return { x: camera.x - width / 2, y: camera.y - height / 2, width, height };
  }
}
