/** What the channel has told: the newest of everything, and a past for the charts. */

import type { Figures, FromServer, Handoff, Hello, Observer, Player, Regions, Replica } from "./protocol.js";

/** Seconds that the charts show. */
export const PAST = 180;

/** A place that runs smoothly from the last message's to this one's. */
export interface Moving {
  kind: number;
  x: number;
  y: number;
  yaw: number;
  fromX: number;
  fromY: number;
  fromYaw: number;
}

/** Farther than anything runs between two messages: it was put elsewhere. */
const JUMP = 6;
/** Between two messages of the world, in milliseconds, when nothing is known yet. */
const USUAL_GAP = 100;

/** Handoffs are shown for so long, in milliseconds, */
export const HANDOFF_SHOWN = 1_500;
/** and so many at once. */
const MAX_HANDOFFS = 256;

/** What is saved against broadcasting, and on what that was measured. */
export function lessThanBroadcast({ broadcast }: Figures): [value: string, label: string] {
  const label = "less than broadcast";
  if (!broadcast) return ["…", `${label}, measuring`];
  const on = `measured on ${broadcast.samples} sampled ${broadcast.samples === 1 ? "player" : "players"}`;
  return [broadcast.ratio === null ? "–" : `${broadcast.ratio.toFixed(1)}×`, `${label}, ${on}`];
}

export class Model {
  hello: Hello | null = null;
  readonly players = new Map<number, Player>();
  /** Players by their avatar. */
  readonly byObject = new Map<string, Player>();
  readonly truth = new Map<string, Moving>();
  readonly lanes = new Map<string, number[]>();
  readonly replicas = new Map<string, { moving: Moving; replica: Replica }>();
  observer: Observer | null = null;
  picked: number | null = null;
  figures: Figures | null = null;
  readonly past: Figures[] = [];
  /** Of a world on many servers. */
  regions: Regions | null = null;
  /** The newest handoffs, and when they were told. */
  handoffs: { handoff: Handoff; at: number }[] = [];
  private lastWorld = 0;
  private gap = USUAL_GAP;

  /** Takes a message in; `now` in milliseconds. */
  apply(message: FromServer, now: number): void {
    switch (message.type) {
      case "hello":
        this.forget();
        this.hello = message;
        break;
      case "players":
        this.players.clear();
        this.byObject.clear();
        for (const player of message.players) {
          this.players.set(player.player, player);
          this.byObject.set(player.object, player);
        }
        break;
      case "world":
        if (this.lastWorld > 0) this.gap += (Math.min(500, now - this.lastWorld) - this.gap) * 0.1;
        this.lastWorld = now;
        refresh(this.truth, message.objects, ([id, kind, x, y, yaw]) => [id, kind, x, y, yaw]);
        break;
      case "states":
        for (const [id, lanes] of message.objects) this.lanes.set(id, lanes);
        for (const id of this.lanes.keys()) if (!this.truth.has(id)) this.lanes.delete(id);
        break;
      case "observer":
        this.observe(message);
        break;
      case "figures":
        this.figures = message;
        this.past.push(message);
        if (this.past.length > PAST) this.past.shift();
        break;
      case "regions":
        this.regions = message;
        this.handoffs = [...this.recentHandoffs(now), ...message.handoffs.map((handoff) => ({ handoff, at: now }))].slice(-MAX_HANDOFFS);
        break;
      case "error":
        break;
    }
  }

  /** Those that are still shown. */
  recentHandoffs(now: number): { handoff: Handoff; at: number }[] {
    return this.handoffs.filter(({ at }) => now - at < HANDOFF_SHOWN);
  }

  /** How far the screen is on its way from the last world to this one, 0 to 1. */
  progress(now: number): number {
    return Math.min(1, (now - this.lastWorld) / this.gap);
  }

  pick(player: number | null): void {
    this.picked = player;
    this.observer = null;
    this.replicas.clear();
  }

  nameOf(player: number): string {
    return this.players.get(player)?.name ?? `#${player}`;
  }

  private observe(message: Observer): void {
    // One that was under way when another was picked.
    if (message.player !== this.picked) return;
    this.observer = message;
    const moving = new Map<string, Moving>();
    for (const [id, known] of this.replicas) moving.set(id, known.moving);
    refresh(moving, message.replicas, ([id, x, y, yaw]) => [id, 0, x, y, yaw]);
    this.replicas.clear();
    for (const replica of message.replicas) {
      this.replicas.set(replica[0], { moving: moving.get(replica[0])!, replica });
    }
  }

  private forget(): void {
    this.truth.clear();
    this.lanes.clear();
    this.replicas.clear();
    this.observer = null;
    this.regions = null;
    this.handoffs = [];
    this.lastWorld = 0;
  }
}

type Placed = [id: string, kind: number, x: number, y: number, yaw: number];

/** Moves what is there on, adds what is new, drops what is gone. */
function refresh<T>(known: Map<string, Moving>, news: T[], placed: (of: T) => Placed): void {
  const seen = new Set<string>();
  for (const item of news) {
    const [id, kind, x, y, yaw] = placed(item);
    seen.add(id);
    const old = known.get(id);
    if (!old) {
      known.set(id, { kind, x, y, yaw, fromX: x, fromY: y, fromYaw: yaw });
      continue;
    }
    const jumped = Math.hypot(x - old.x, y - old.y) > JUMP;
    old.fromX = jumped ? x : old.x;
    old.fromY = jumped ? y : old.y;
    old.fromYaw = old.yaw;
    [old.x, old.y, old.yaw] = [x, y, yaw];
  }
  for (const id of known.keys()) if (!seen.has(id)) known.delete(id);
}

export const between = (from: number, to: number, share: number): number => from + (to - from) * share;

/** The shorter way round. */
export function betweenAngles(from: number, to: number, share: number): number {
  const turn = Math.PI * 2;
  const by = ((((to - from) % turn) + turn * 1.5) % turn) - turn / 2;
  return from + by * share;
}
