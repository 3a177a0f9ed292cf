/** A joined game: every frame looks, aims and draws; every tick sends the player's input. */

import type { AvatarRule, Controls, Point } from "@foveate/client/arena";
import type { ArenaFields } from "../scene/arena.js";
import type { Camera } from "../scene/camera.js";
import type { Cleanup } from "../ui/dom.js";
import { Command } from "./command.js";
import { Frames } from "./frames.js";
import { Hand } from "./hand.js";
import { Hud } from "./hud/hud.js";
import { Narrator } from "./narrator.js";
import type { Picture } from "./picture.js";
import { type Ray, untilTarget, untilWall } from "./rules/trace.js";
import type { UnitPlaces } from "./rules/units.js";
import { walkTowards } from "./rules/walk.js";
import { HELD, type Held, MAKES } from "./rules/weapons.js";
import { type ArenaClient, type Seen, Sight } from "./sight.js";
import { Sound } from "./sound.js";
import { touch } from "./touch.js";
import { Watch } from "./watch.js";

/** How near an item must be to be taken, in units; the rules allow slightly more. */
const TAKE_WITHIN = 2.6;
/** Time between two attempts, in milliseconds. */
const TAKE_PACE = 400;
/** A larger distance in one frame is a jump of the avatar that the camera follows, in units. */
const JUMP = 12;

export interface GameOptions {
  client: ArenaClient;
  fields: ArenaFields;
  places: UnitPlaces;
  picture: Picture;
  host: HTMLElement;
  canvas: HTMLElement;
  /** The rule that predicts the player's own avatar, and the graph's nodes. */
  rule: AvatarRule;
  nodes: readonly Point[];
  hz: number;
}

export class Game {
  readonly sight: Sight;
  readonly frames = new Frames();
  readonly hand: Hand;
  readonly hud: Hud;
  private readonly command: Command;
  private readonly watch: Watch;
  private readonly narrator: Narrator;
  private readonly sound = new Sound();
  private focus = { x: 0, y: 0 };
  private aim = 0;
  private shownAt = 0;
  private takenAt = 0;
  private dartAt = Number.NEGATIVE_INFINITY;
  private zoomed = false;
  private shown = 0;

  constructor(
    private readonly options: GameOptions,
    cleanup: Cleanup,
  ) {
    const { client, fields, picture, host, canvas } = options;
    this.sight = new Sight(client, fields, options.places);
    this.watch = new Watch(client, this.sight);
    this.hand = new Hand(canvas, this.presses(), cleanup);
    this.hud = new Hud(
      host,
      { ...options, sight: this.sight, map: picture.map, sound: this.sound },
      this.hudActions(),
      cleanup,
    );
    this.command = new Command(
      canvas,
      {
        ...options,
        sight: this.sight,
        camera: picture.camera,
        hand: this.hand,
        onOrder: (x, y) => picture.effects.ring(x, y, 1.6, picture.colours.accent, performance.now(), 600),
      },
      cleanup,
    );
    this.narrator = new Narrator(client, this.sight, picture, this.hud, this.sound);
    touch(host, this.hand, cleanup);
    cleanup.add(client.on("event", (event) => this.narrator.tell(event, this.hand.pointer)));
    cleanup.add(() => this.sound.close());
    cleanup.add(client.on("state", (state) => state === "playing" && this.again()));
    client.onTick((tick) => this.tick(tick));
  }

  /** The player's own shots: shown here, reported by the server, and hits. */
  get shots(): { shown: number; told: number; hits: number } {
    return { shown: this.shown, ...this.narrator.shots };
  }

  get camera(): Camera {
    return this.options.picture.camera;
  }

  /** The place of the player's own avatar, for the debug object. */
  get own(): Seen | null {
    return this.sight.me;
  }

  get watched(): bigint | null {
    return this.watch.whom;
  }

  get steered(): number | null {
    return this.command.steered;
  }

  frame(now: number): void {
    const { client, picture } = this.options;
    const seconds = Math.min(0.1, (now - this.shownAt) / 1_000);
    this.shownAt = now;
    this.sight.look(now);
    const focus = this.lookAt(now);
    if (focus) {
      const jumps = Math.hypot(focus.x - this.focus.x, focus.y - this.focus.y) > JUMP;
      this.focus = { x: focus.x, y: focus.y };
      const pointer = this.hand.stickAim === null ? this.hand.pointer : this.ahead();
      picture.follow(focus, pointer, { zoomed: this.hand.zoomed, seconds, jumps });
    }
    this.turn(focus);
    this.setZoom();
    this.takeItems(now);
    this.drawAim(focus);
    picture.draw(this.sight, (player) => client.nameOf(player), this.command.selected, now);
    const ready = this.readiness();
    this.hud.show(
      {
        ready,
        weapon: this.hand.weapon,
        window: picture.window(),
        watched: this.watch.whom,
        mayWatch: this.watch.isAllowed,
        steered: this.command.steered,
        commanding: this.hand.commanding,
      },
      now,
    );
  }

  private presses() {
    return {
      go: () => this.command.order(this.hand.pointer.x, this.hand.pointer.y),
      follow: () => this.command.tell({ is: "follow" }),
      stay: () => this.command.tell({ is: "stay" }),
      embody: () => this.command.embody(),
      drop: () => this.drop(),
      watch: () => this.watch.toggle(),
      next: (by: 1 | -1) => {
        this.watch.next(by);
      },
      command: () => this.setCommanding(!this.hand.commanding),
      help: () => this.hud.toggleHelp(),
    };
  }

  private hudActions() {
    return {
      pick: (weapon: Held) => {
        this.hand.weapon = weapon;
      },
      unit: () => this.setCommanding(!this.hand.commanding),
      next: (by: 1 | -1) => this.watch.next(by),
      own: () => this.watch.own(),
      watch: () => this.watch.toggle(),
    };
  }

  private setCommanding(on: boolean): void {
    this.hand.commanding = on;
    this.options.canvas.classList.toggle("commanding", on);
    if (!on) this.command.selected.clear();
  }

  /** The object that the camera follows: the watched player, the steered unit, or the own avatar. */
  private lookAt(now: number): Seen | null {
    const seen = this.watch.update(now);
    if (this.watch.whom !== null || this.command.steered === null) return seen;
    const unit = this.steeredUnit();
    if (!unit) this.command.steered = null;
    return unit ?? seen;
  }

  private steeredUnit(): Seen | null {
    const { client, places } = this.options;
    const unit = this.sight.units.find(
      (seen) => seen.player === client.player && seen.serial - 1 === this.command.steered,
    );
    return unit && places.dutyOf(unit.lanes) !== "down" ? unit : null;
  }

  /** With a stick, the camera looks ahead as far as the stick is pushed. */
  private ahead(): { x: number; y: number } {
    const { canvas } = this.options;
    const [x, y] = [canvas.clientWidth / 2, canvas.clientHeight / 2];
    const far = Math.min(x, y) * 0.8;
    const angle = this.hand.stickAim ?? 0;
    return { x: x + Math.cos(angle) * far, y: y - Math.sin(angle) * far };
  }

  private turn(focus: Seen | null): void {
    if (!focus || this.watch.whom !== null) return;
    const { camera } = this.options.picture;
    const { pointer, stickAim } = this.hand;
    this.aim = stickAim ?? Math.atan2(camera.worldY(pointer.y) - focus.y, camera.worldX(pointer.x) - focus.x);
    // The own body turns with the input at once, not with the next tick.
    if (focus.health > 0) focus.yaw = this.aim;
  }

  /** A new link does not know the watched player and the view; requests made without a link are lost. */
  private again(): void {
    this.watch.again();
    this.options.client.view(this.zoomed ? 1 : 0);
  }

  private setZoom(): void {
    if (this.hand.zoomed === this.zoomed) return;
    this.zoomed = this.hand.zoomed;
    this.options.client.view(this.zoomed ? 1 : 0);
  }

  /** Takes items that the avatar walks over. */
  private takeItems(now: number): void {
    const { me } = this.sight;
    if (!me || me.health === 0 || now - this.takenAt < TAKE_PACE) return;
    for (const item of this.sight.items) {
      if (this.sight.fields.item.holder(item.lanes) !== 0) continue;
      if (Math.hypot(item.x - me.x, item.y - me.y) > TAKE_WITHIN) continue;
      this.takenAt = now;
      this.options.client.ask(item.id, { is: "take" });
    }
  }

  private drop(): void {
    const { client } = this.options;
    for (const item of this.sight.items) {
      if (this.sight.fields.item.holder(item.lanes) === client.player) client.ask(item.id, { is: "drop" });
    }
    // Otherwise the next frame would take it again at once.
    this.takenAt = performance.now() + 2_000;
  }

  private drawAim(focus: Seen | null): void {
    const { picture } = this.options;
    picture.aim.clear();
    const { box } = this.command;
    const { camera } = picture;
    if (box) {
      picture.aim.box(
        camera.worldX(box.x0),
        camera.worldY(box.y0),
        camera.worldX(box.x1),
        camera.worldY(box.y1),
        picture.colours,
      );
    }
    if (!focus || focus.health === 0 || this.watch.whom !== null || this.hand.commanding) return;
    const weapon = this.command.steered === null ? this.hand.weapon : "dart";
    const ray: Ray = { x: focus.x, y: focus.y, angle: this.aim, reach: MAKES[weapon].reach };
    const length = untilWall(picture.map, ray);
    picture.aim.aim(focus.x, focus.y, this.aim, weapon, length, this.readiness() === 1, picture.colours);
  }

  /** Progress of the weapon's cooldown, 0 to 1. */
  private readiness(): number {
    const { client, rule } = this.options;
    if (this.command.steered !== null) {
      return Math.min(1, (performance.now() - this.dartAt) / MAKES.dart.cooldownMs);
    }
    const lanes = client.own()?.lanes;
    if (!lanes) return 0;
    const left = rule.ticksUntilReady(lanes, Math.floor(client.tick)) * client.round;
    return 1 - Math.min(1, left / MAKES[this.hand.weapon].cooldownMs);
  }

  /** The input of a tick. Its effect is shown at once. */
  private tick(tick: number): Controls {
    const { client } = this.options;
    const isAway = this.watch.whom !== null;
    const [along, up] = isAway ? [0, 0] : this.hand.direction;
    const walk = walkTowards(along, up, this.aim);
    const fires = !isAway && this.hand.fires;
    const { steered } = this.command;
    if (fires) this.showShot(tick);
    return {
      walk,
      fire: fires ? Math.max(0, Math.floor(client.shownTick)) : null,
      hands: steered === null ? this.hand.weapon : { unit: steered },
    };
  }

  private showShot(tick: number): void {
    const { client, fields, rule, picture } = this.options;
    const now = performance.now();
    const unit = this.command.steered === null ? null : this.steeredUnit();
    const shooter = unit ?? this.sight.me;
    if (!shooter || shooter.health === 0) return;
    if (unit) {
      if (now - this.dartAt < MAKES.dart.cooldownMs) return;
      this.dartAt = now;
    } else {
      const lanes = client.own()?.lanes;
      const held = HELD.indexOf(this.hand.weapon);
      if (!lanes || rule.ticksUntilReady(lanes, tick) > 0 || fields.avatar.weapon(lanes) !== held) return;
    }
    const weapon = unit ? "dart" : this.hand.weapon;
    const ray: Ray = { x: shooter.x, y: shooter.y, angle: this.aim, reach: MAKES[weapon].reach };
    ray.reach = untilWall(picture.map, ray);
    const enemies = [...this.sight.avatars, ...this.sight.units].filter(
      (seen) => seen.team !== shooter.team && seen.health > 0,
    );
    const { length, hit } = MAKES[weapon].spread > 0 ? { length: ray.reach, hit: false } : untilTarget(ray, enemies);
    const colour = picture.colours.teams[shooter.team];
    this.shown += 1;
    this.sound.play(weapon);
    picture.effects.shot(shooter, { weapon, angle: this.aim, length, hit }, colour, now);
  }
}
