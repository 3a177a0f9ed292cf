/** What the server has sent: the newest of everything, and a history for the charts. */

import type { Figures, FromServer, Handoff, Hello, Observer, Player, Regions, Replica } from "./protocol.js";

/** Seconds that the charts show. */
export const PAST = 180;

/** A position that moves smoothly from the last message's to this one's. */
export interface Moving {
  kind: number;
  x: number;
  y: number;
  yaw: number;
  fromX: number;
  fromY: number;
  fromYaw: number;
}

/** A larger distance between two messages is a jump, in units. */
const JUMP = 6;
/** Time between two messages of the world until it has been measured, in milliseconds. */
const USUAL_GAP = 100;

/** How long handoffs are shown, in milliseconds. */
export const HANDOFF_SHOWN = 1_500;
/** Most handoffs that are shown at a time. */
const MAX_HANDOFFS = 256;

/** What is saved compared with broadcasting, and how it was measured. */
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
  /** The regions of a world on many servers. */
  regions: Regions | null = null;
  /** The newest handoffs, with the times when they arrived. */
  handoffs: { handoff: Handoff; at: number }[] = [];
  private lastWorld = 0;
  private gap = USUAL_GAP;

  /** Applies a message; `now` is in milliseconds. */
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

  /** Handoffs that are still shown. */
  recentHandoffs(now: number): { handoff: Handoff; at: number }[] {
    return this.handoffs.filter(({ at }) => now - at < HANDOFF_SHOWN);
  }

  /** How far the display has moved from the last world to this one, 0 to 1. */
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
    // A message that was sent before another player was picked.
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

/** Updates known objects, adds new ones and removes the others. */
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

/** Interpolates by the shorter way round. */
export function betweenAngles(from: number, to: number, share: number): number {
  const turn = Math.PI * 2;
  const by = ((((to - from) % turn) + turn * 1.5) % turn) - turn / 2;
  return from + by * share;
}
