/**
 * What is shown: replicas between packets, smoothed.
 *
 * **Predict**: the replica where the shared predictor puts it now; when an update moves that point, the shown one
 * glides there. **Interpolate**: the replica a short time ago, between two states that arrived; the delay adapts to how
 * irregularly they arrive. Neither draws movement across a jump. Times are microseconds on the server's clock, in which
 * round n begins at n · round.
 */
import type { Sample, Show } from "../client/types.js";
import type { TurnLane } from "../wire/schema.js";
import { stepsToAngle } from "../wire/values.js";
import type { Replica } from "./replicas.js";

/** Time in which half of a correction fades. */
const HALF_LIFE = 100_000;
/** Replicas that are off by more than this many rounds of full speed are corrected at once. */
const SNAP_ROUNDS = 20;
/** The longest delay of interpolation. */
const MAX_DELAY = 500_000;
/** The delay changes by at most this share of the elapsed time, so that what is shown neither moves back nor leaps. */
const SLEW = 0.2;
const TAU = 2 * Math.PI;

/** The shorter way from one angle to another. */
export function turn(from: number, to: number): number {
  const by = (to - from) % TAU;
  return by > Math.PI ? by - TAU : by < -Math.PI ? by + TAU : by;
}

function angle(replica: Replica, facing: TurnLane | null): number {
  return facing === null ? 0 : stepsToAngle(replica.states.lane(facing.at), facing.steps);
}

/** The smoothing of one replica. */
export class Smoother {
  /** Shown minus predicted place, yaw and pitch, which fades. */
  private readonly offset = new Float64Array(5);
  /** The last shown pose, of which state, and when. */
  private readonly shown = new Float64Array(5);
  private readonly exact = new Float64Array(5);
  private tick = -1;
  private then = 0;
  /** Mean time between two states and its mean deviation, smoothed; and when the last state was seen. */
  private gap: number;
  private jitter: number;
  private arrival = -1;
  /** The current delay. */
  private late: number;

  constructor(
    private readonly show: Show,
    private readonly round: number,
  ) {
    this.gap = round;
    this.jitter = round / 2;
    this.late = this.wanted;
  }

  /** How far in the past interpolation shows the replica. */
  get delay(): number {
    return this.show === "predict" ? 0 : this.late;
  }

  private get wanted(): number {
    return Math.min(this.gap + 3 * this.jitter, MAX_DELAY);
  }

  /** Computes where to draw the replica. Call it once a frame, with rising times. False for kinds without a place. */
  sample(replica: Replica, now: number, out: Sample): boolean {
    if (replica.spec.place === null) return false;
    const updated = this.tick !== replica.tick;
    out.jumped = updated && this.tick >= 0 && replica.states.jumpedSince(this.tick);
    if (this.show === "predict") this.predict(replica, now, updated, out);
    else this.interpolate(replica, now, updated);
    this.tick = replica.tick;
    this.then = now;
    for (let axis = 0; axis < 3; axis++) out.place[axis] = this.shown[axis];
    out.yaw = this.shown[3];
    out.pitch = this.shown[4];
    out.frozen = replica.frozen;
    out.staleness = Math.max(now - replica.tick * this.round, 0) / 1000;
    const off = (axis: number): number => this.shown[axis] - this.exact[axis];
    out.shownError = Math.sqrt(off(0) ** 2 + off(1) ** 2 + off(2) ** 2);
    return true;
  }

  private predict(replica: Replica, now: number, updated: boolean, out: Sample): void {
    const { exact, offset, shown, round } = this;
    this.predicted(replica, now);
    if (this.tick >= 0) {
      const passed = Math.max(now - this.then, 0);
      if (updated) {
        // An update moved the prediction: start from where the replica was last shown.
        for (let axis = 0; axis < 3; axis++) offset[axis] = shown[axis] - exact[axis];
        for (let axis = 3; axis < 5; axis++) offset[axis] = turn(exact[axis], shown[axis]);
        const far = (replica.spec.maxSpeed * (SNAP_ROUNDS * round + passed)) / 1e6;
        if (out.jumped || Math.hypot(offset[0], offset[1], offset[2]) > far) {
          out.jumped = true;
          offset.fill(0);
        }
      }
      const left = 2 ** (-passed / HALF_LIFE);
      for (let axis = 0; axis < 5; axis++) offset[axis] *= left;
    }
    for (let axis = 0; axis < 5; axis++) shown[axis] = exact[axis] + offset[axis];
  }

  /** The prediction between two rounds: linear from one to the next. */
  private predicted(replica: Replica, now: number): void {
    const { exact, round } = this;
    const precision = replica.spec.place?.precision ?? 0;
    const tick = Math.floor(now / round);
    const share = replica.life === "live" ? now / round - tick : 0;
    for (let axis = 0; axis < 3; axis++) {
      const here = replica.predicted(tick >>> 0, axis);
      const next = share === 0 ? here : replica.predicted((tick + 1) >>> 0, axis);
      exact[axis] = (here + (next - here) * share) * precision;
    }
    exact[3] = angle(replica, replica.spec.yaw);
    exact[4] = angle(replica, replica.spec.pitch);
  }

  private interpolate(replica: Replica, now: number, updated: boolean): void {
    if (updated) this.arrived(now);
    const most = this.tick >= 0 ? SLEW * Math.max(now - this.then, 0) : 0;
    this.late += Math.min(Math.max(this.wanted - this.late, -most), most);
    const { spec, states } = replica;
    const past = Math.max(now - this.late, 0);
    const tick = Math.floor(past / this.round) >>> 0;
    const [before, after] = states.around(tick);
    if (after < 0) {
      // Without a newer state it goes on as predicted, rather than waiting for the next state.
      this.predicted(replica, past);
      this.shown.set(this.exact);
      this.predicted(replica, now);
      return;
    }
    this.predicted(replica, now);
    const first = before >= 0 ? before : after;
    // No movement is drawn across a jump: the replica stays until the tick of the jump.
    const second = before >= 0 && !this.jumps(replica, before, after) ? after : first;
    const begin = states.tickAt(first) * this.round;
    const span = ((states.tickAt(second) - states.tickAt(first)) >>> 0) * this.round;
    const share = span === 0 ? 0 : Math.min(Math.max((past - begin) / span, 0), 1);
    const place = spec.place;
    for (let axis = 0; axis < 3; axis++) {
      const at = (state: number): number =>
        place !== null && axis < place.dims ? states.laneAt(state, place.at + axis) * place.precision : 0;
      this.shown[axis] = at(first) + (at(second) - at(first)) * share;
    }
    const facing = (lane: TurnLane | null): number => {
      if (lane === null) return 0;
      const [a, b] = [first, second].map((state) => stepsToAngle(states.laneAt(state, lane.at), lane.steps));
      return a + turn(a, b) * share;
    };
    this.shown[3] = facing(spec.yaw);
    this.shown[4] = facing(spec.pitch);
  }

  /** Whether a state came by a jump. Short jumps are not marked, but are farther than the largest speed allows. */
  private jumps({ spec, states }: Replica, before: number, after: number): boolean {
    if (states.jumpedAt(after)) return true;
    if (spec.place === null || spec.maxSpeed === 0) return false;
    const { at, dims, precision } = spec.place;
    let square = 0;
    for (let lane = at; lane < at + dims; lane++) square += (states.laneAt(after, lane) - states.laneAt(before, lane)) ** 2;
    const rounds = (states.tickAt(after) - states.tickAt(before)) >>> 0;
    return Math.sqrt(square) * precision > (spec.maxSpeed * rounds * this.round) / 1e6 + 4 * precision;
  }

  private arrived(now: number): void {
    if (this.arrival >= 0) {
      const gap = Math.max(now - this.arrival, 0);
      this.jitter += (Math.abs(gap - this.gap) - this.jitter) / 8;
      this.gap += (gap - this.gap) / 8;
    }
    this.arrival = now;
  }
}
