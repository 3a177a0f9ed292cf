/** Draws the player's own avatar between its last two predicted states, gliding after a correction. */
import { turn } from "../replica/show.js";
import type { Kind, TurnLane } from "../wire/schema.js";
import { stepsToAngle } from "../wire/values.js";
import type { OwnView } from "./types.js";

/** Time in which half of a correction fades, in milliseconds. */
const HALF_LIFE = 100;
/** A change of more than this many rounds of full speed is a jump, which is not drawn as movement. */
const SNAP_ROUNDS = 10;

/** The predicted states to draw between. */
export interface Predicted {
  readonly lanes: Int32Array | null;
  readonly before: Int32Array | null;
}

export class OwnShown {
  private readonly offset: [number, number, number] = [0, 0, 0];
  private readonly kept: [number, number, number] = [0, 0, 0];
  private since = 0;
  private steppedAt = 0;

  /** Records that the newest state was predicted now. */
  stepped(now: number): void {
    this.steppedAt = now;
  }

  /** Remembers where the avatar is drawn, before a possible correction. */
  keep(predicted: Predicted, kind: Kind, now: number, round: number): void {
    for (let axis = 0; axis < 3; axis++) {
      this.kept[axis] = this.at(predicted, kind, axis, now, round) + this.offset[axis] * this.left(now);
    }
  }

  /** Makes a corrected avatar glide from where it was drawn. */
  glide(predicted: Predicted, kind: Kind, now: number, round: number): void {
    for (let axis = 0; axis < 3; axis++) {
      this.offset[axis] = this.kept[axis] - this.at(predicted, kind, axis, now, round);
    }
    this.since = now;
    if (Math.hypot(...this.offset) > farthest(kind, round)) this.offset.fill(0);
  }

  view(predicted: Predicted, kind: Kind, now: number, round: number): OwnView | null {
    if (predicted.lanes === null) return null;
    const [share, left] = [this.share(now, round), this.left(now)];
    const place = [0, 1, 2].map((axis) => this.at(predicted, kind, axis, now, round) + this.offset[axis] * left);
    return {
      lanes: predicted.lanes,
      place: place as [number, number, number],
      yaw: this.facing(predicted, kind.yaw, share),
      pitch: this.facing(predicted, kind.pitch, share),
      offset: Math.hypot(...this.offset) * left,
    };
  }

  /** How far it is from the previous state to the newest one, 0 to 1. */
  private share(now: number, round: number): number {
    return Math.min(Math.max(((now - this.steppedAt) * 1000) / round, 0), 1);
  }

  private left(now: number): number {
    return 2 ** (-Math.max(now - this.since, 0) / HALF_LIFE);
  }

  /** Where the predicted states put it, on one axis. */
  private at({ lanes, before }: Predicted, kind: Kind, axis: number, now: number, round: number): number {
    const place = kind.place;
    if (lanes === null || before === null || place === null || axis >= place.dims) return 0;
    const [a, b] = [before[place.at + axis] * place.precision, lanes[place.at + axis] * place.precision];
    return Math.abs(b - a) > farthest(kind, round) ? b : a + (b - a) * this.share(now, round);
  }

  private facing({ lanes, before }: Predicted, lane: TurnLane | null, share: number): number {
    if (lanes === null || before === null || lane === null) return 0;
    const [a, b] = [before, lanes].map((state) => stepsToAngle(state[lane.at], lane.steps));
    return a + turn(a, b) * share;
  }
}

/** The largest change that is no jump, in world units. */
function farthest(kind: Kind, round: number): number {
  return (kind.maxSpeed * SNAP_ROUNDS * round) / 1e6;
}
