/** Turns events into effects, sounds and lines in the feed. */

import type { Event } from "@foveate/client/arena";
import type { Hud } from "./hud/hud.js";
import type { Picture } from "./picture.js";
import { MAKES } from "./rules/weapons.js";
import type { ArenaClient, Seen, Sight } from "./sight.js";
import type { Sound } from "./sound.js";
import { TEAMS } from "./teams.js";

export class Narrator {
  /** The player's own shots that the server reported, and those that hit. */
  readonly shots = { told: 0, hits: 0 };

  constructor(
    private readonly client: ArenaClient,
    private readonly sight: Sight,
    private readonly picture: Picture,
    private readonly hud: Hud,
    private readonly sound: Sound,
  ) {}

  tell(event: Event, pointer: { x: number; y: number }): void {
    const { hud } = this;
    switch (event.is) {
      case "shot":
        this.shot(event, pointer);
        break;
      case "died":
        this.died(event);
        break;
      case "back":
        this.ring(this.sight.avatarOf(event.player), 2.4);
        break;
      case "taken":
        hud.feed.say(this.name(event.player), ` has a ${event.charm}`);
        break;
      case "captured":
        hud.feed.say({ text: TEAMS[event.team] ?? "A team", team: event.team }, " took a base");
        if (event.team === this.sight.me?.team) this.sound.play("good");
        break;
      case "lost":
        hud.feed.say("A base is neutral");
        break;
      case "won":
        hud.feed.say(
          event.team === 0
            ? "The round ends in a draw"
            : { text: `${TEAMS[event.team]} wins the round`, team: event.team },
        );
        break;
      case "began":
        hud.feed.say(`Round ${event.round} begins`);
        break;
      case "downed":
        hud.feed.say(this.name(event.by), " shot a unit of ", this.name(event.player));
        break;
      case "dropped":
        break;
    }
  }

  private shot(event: Extract<Event, { is: "shot" }>, pointer: { x: number; y: number }): void {
    if (event.player === this.client.player && (event.unit === null || this.hud.steers)) {
      // The player's own shot was shown when it was fired; only the server knows whether it hit.
      this.shots.told += 1;
      if (event.hits > 0) {
        this.shots.hits += 1;
        this.sound.play("hit");
        this.hud.flashHit(pointer.x, pointer.y);
      }
      return;
    }
    const { avatars, units } = this.sight;
    const from =
      event.unit === null
        ? avatars.find((seen) => seen.player === event.player)
        : units.find((seen) => seen.player === event.player && seen.serial === event.unit! + 1);
    if (!from) return;
    this.sound.play(event.weapon, this.distance(from));
    const { weapon, yaw, length, hits } = event;
    const colour = this.picture.colours.teams[from.team];
    const shot = { weapon, angle: yaw, length, hit: hits > 0 };
    this.picture.effects.shot(from, shot, colour, performance.now());
  }

  private died(event: Extract<Event, { is: "died" }>): void {
    this.hud.feed.say(this.name(event.by), ` › ${MAKES[event.weapon].title.toLowerCase()} › `, this.name(event.player));
    this.ring(this.sight.avatarOf(event.player), 3.4);
    const victim = this.sight.avatarOf(event.player);
    if (victim) this.sound.play("died", this.distance(victim));
    if (event.player === this.client.player) this.hud.killedBy(this.client.nameOf(event.by));
  }

  /** Distance from the middle of the screen. */
  private distance(at: Seen): number {
    const { camera } = this.picture;
    return Math.hypot(at.x - camera.x, at.y - camera.y);
  }

  private ring(at: Seen | undefined, size: number): void {
    if (!at) return;
    const { effects, colours } = this.picture;
    effects.ring(at.x, at.y, size, colours.teams[at.team], performance.now());
  }

  private name(player: number): { text: string; team: number } {
    const text = player === this.client.player ? "You" : this.client.nameOf(player) || `#${player}`;
    return { text, team: this.sight.avatarOf(player)?.team ?? 0 };
  }
}
