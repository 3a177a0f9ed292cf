/** Everything above the canvas. */

import type { ArenaFields } from "../../scene/arena.js";
import type { MapShape } from "../../scene/ground.js";
import { type Cleanup, h, setShown, setText } from "../../ui/dom.js";
import { AWAY_MS, HELD_MS, type Held, ticks, ticksLeft } from "../rules/weapons.js";
import type { Sound } from "../sound.js";
import type { ArenaClient, Sight } from "../sight.js";
import { TEAMS } from "../teams.js";
import { type BodyFacts, BodyPanel } from "./body.js";
import { Feed } from "./feed.js";
import { LinkPanel } from "./link.js";
import { Minimap, type Window } from "./minimap.js";
import { Overlay } from "./overlay.js";
import { ScoreBoard } from "./score.js";

/** Time between two updates of texts, in milliseconds. */
const PACE = 80;

export interface HudOptions {
  client: ArenaClient;
  fields: ArenaFields;
  sight: Sight;
  map: MapShape;
  hz: number;
  sound: Sound;
}

export interface HudActions {
  pick: (weapon: Held) => void;
  unit: () => void;
  next: (by: 1 | -1) => void;
  own: () => void;
  watch: () => void;
}

export interface HudFacts {
  ready: number;
  weapon: Held;
  window: Window;
  watched: bigint | null;
  /** Whether the server allows watching other players now. */
  mayWatch: boolean;
  steered: number | null;
  commanding: boolean;
}

export class Hud {
  readonly feed = new Feed();
  readonly link = new LinkPanel();
  /** Whether a unit is steered. */
  steers = false;
  private readonly score: ScoreBoard;
  private readonly minimap: Minimap;
  private readonly body: BodyPanel;
  private readonly overlay: Overlay;
  private readonly hint = h("div", { class: "hint", role: "status", hidden: true, "data-testid": "hint" });
  private shownAt = 0;
  private health = 0;
  private readonly watch = h("button", { type: "button", "data-testid": "watch", title: "Watch a team mate while you are dead" }, "Watch");
  private killer = "";

  constructor(
    host: HTMLElement,
    private readonly options: HudOptions,
    actions: HudActions,
    cleanup: Cleanup,
  ) {
    this.score = new ScoreBoard(options.fields);
    this.minimap = new Minimap(options.map);
    cleanup.add(this.minimap.followTheme());
    this.body = new BodyPanel(actions);
    this.watch.onclick = actions.watch;
    this.overlay = new Overlay(actions);
    const tools = h(
      "div",
      { class: "tools" },
      this.watch,
      soundButton(options.sound),
      h(
        "button",
        {
          type: "button",
          "data-testid": "help-button",
          "aria-label": "Keys",
          onclick: () => this.overlay.toggleHelp(),
        },
        "?",
      ),
    );
    const root = h(
      "div",
      { class: "hud", "data-testid": "hud" },
      h("div", { class: "corner left" }, this.link.element, tools),
      this.score.element,
      h("div", { class: "corner right" }, this.minimap.element, this.feed.element),
      this.score.banner,
      this.hint,
      this.body.element,
      this.overlay.element,
    );
    host.append(root);
    cleanup.add(() => root.remove());
  }

  show(facts: HudFacts, now: number): void {
    const { client, sight } = this.options;
    this.watch.disabled = !facts.mayWatch;
    this.minimap.draw(sight, facts.window, now);
    this.steers = facts.steered !== null;
    const health = sight.me?.health ?? this.health;
    if (health < this.health && facts.watched === null) {
      this.overlay.flashHurt();
      this.options.sound.play("hurt");
    }
    if (health > 0) this.killer = "";
    this.health = health;
    if (now - this.shownAt < PACE) return;
    this.shownAt = now;
    this.link.show(client.stats, now);
    this.score.show(sight.match, client.tick, this.options.hz);
    this.body.show(facts.watched === null ? this.facts(facts) : null);
    this.overlay.showLink(client.state);
    this.overlay.showDead(facts.watched === null ? this.dead() : null);
    const whom = facts.watched === null ? null : sight.get(facts.watched);
    this.overlay.showWatching(whom ? client.nameOf(whom.player) || `#${whom.player}` : null);
    this.showHint(facts);
  }

  killedBy(name: string): void {
    this.killer = name;
  }

  flashHit(x: number, y: number): void {
    this.overlay.flashHit(x, y);
  }

  toggleHelp(): void {
    this.overlay.toggleHelp();
  }

  private facts({ ready, weapon }: HudFacts): BodyFacts | null {
    const { client, fields, sight, hz } = this.options;
    const { me } = sight;
    if (!me) return null;
    const { avatar, item } = fields;
    const held = sight.items.filter((seen) => item.holder(seen.lanes) === client.player);
    const mine = sight.units.find((seen) => seen.player === client.player);
    return {
      health: me.health,
      weapon,
      ready,
      team: TEAMS[me.team],
      score: avatar.score(me.lanes),
      kills: avatar.kills(me.lanes),
      deaths: avatar.deaths(me.lanes),
      items: held.map((seen) => ({
        isShield: item.charm(seen.lanes) === 1,
        left: ticksLeft(item.until(seen.lanes), Math.floor(client.tick), ticks(HELD_MS, hz)) / hz,
      })),
      unit: mine ? sight.places.dutyOf(mine.lanes) : null,
    };
  }

  private dead(): { by: string; left: number } | null {
    const { client, fields, sight, hz } = this.options;
    const { me } = sight;
    if (!me || me.health > 0) return null;
    const until = fields.avatar.ready(me.lanes);
    const left = ticksLeft(until, Math.floor(client.tick), ticks(AWAY_MS, hz)) / hz;
    return { by: this.killer, left };
  }

  private showHint({ steered, commanding }: HudFacts): void {
    const texts = [
      steered === null ? "" : "You steer your unit. T: back to your avatar",
      commanding ? "Command: drag to select, right click to send, F follow, H stay, C to end" : "",
    ];
    const text = texts.filter((part) => part !== "").join(" · ");
    setShown(this.hint, text !== "");
    setText(this.hint, text);
  }
}

function soundButton(sound: Sound): HTMLElement {
  const button = h("button", { type: "button", "data-testid": "sound", onclick: () => toggle() });
  const label = (): void => {
    setText(button, sound.isOn ? "♪ on" : "♪ off");
    button.setAttribute("aria-label", sound.isOn ? "Turn sound off" : "Turn sound on");
  };
  const toggle = (): void => {
    sound.toggle();
    label();
  };
  label();
  return button;
}
