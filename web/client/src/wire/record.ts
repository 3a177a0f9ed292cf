/** Decodes an object's state: section 6 of `docs/WIRE.md`. */
import * as C from "./contexts.js";
import { length } from "./coder.js";
import type { Decoder } from "./coder.js";
import { HORIZON, ageClass, readAbsolute, readJump, readResidual, way } from "./place.js";
import type { Fall, Steps } from "./place.js";
import type { Kind, PlaceLanes } from "./schema.js";
import { STEP, SYMBOL, TURN } from "./types.js";

/** A state that the receiver has: the start of its lanes, its motion, and its age in rounds. */
export interface Baseline {
  lanes: Int32Array;
  at: number;
  readonly moved: Steps;
  ticks: number;
  age: number;
}

/** How a state came about: its motion from the baseline, and whether it jumped. */
export interface Motion {
  readonly moved: Steps;
  ticks: number;
  jumped: boolean;
}

/** The class of the miss of a whole state, of a jump, and of a kind without a place. */
const FAR = 2;

const ahead: Steps = [0, 0, 0];
const residual: Steps = [0, 0, 0];

/** Reads a state into `out` from lane `to` on, and its motion into `motion`. Without a base it is whole. */
export function readState(
  c: Decoder,
  kind: Kind,
  base: Baseline | null,
  fall: Fall,
  out: Int32Array,
  to: number,
  motion: Motion,
): void {
  if (base === null) out.fill(0, to, to + kind.lanes);
  else for (let n = 0; n < kind.lanes; n++) out[to + n] = base.lanes[base.at + n];
  motion.moved.fill(0);
  motion.ticks = 0;
  motion.jumped = false;
  let miss = FAR;
  if (kind.place !== null) miss = readPlace(c, kind.place, base, fall, out, to, motion);
  if (kind.yaw !== null || kind.pitch !== null) readFacing(c, kind, base === null ? HORIZON : base.age, miss, out, to);
  readOthers(c, kind, base === null ? 1 : 0, out, to);
}

/** Reads a place; returns the class of its distance from the prediction. */
function readPlace(
  c: Decoder,
  place: PlaceLanes,
  base: Baseline | null,
  fall: Fall,
  out: Int32Array,
  to: number,
  motion: Motion,
): number {
  const at = to + place.at;
  const jumped = base !== null && c.bit(C.JUMP + ageClass(base.age)) === 1;
  if (base === null || jumped) {
    motion.jumped = jumped;
    if (jumped) {
      for (let axis = 0; axis < 3; axis++) residual[axis] = axis < place.dims ? out[at + axis] : 0;
      readJump(c, place, residual);
    } else readAbsolute(c, place, residual);
    for (let axis = 0; axis < place.dims; axis++) out[at + axis] = within(residual[axis], place.extent);
    return FAR;
  }
  const ticks = place.motion ? base.ticks : 0;
  for (let axis = 0; axis < 3; axis++) ahead[axis] = place.motion ? way(base.moved[axis], ticks, base.age) : 0;
  readResidual(c, fall, ahead, base.age, ticks, residual);
  if (place.motion) motion.ticks = base.age;
  for (let axis = 0; axis < 3; axis++) {
    const from = axis < place.dims ? out[at + axis] : 0;
    const there = (((from + ahead[axis]) | 0) + residual[axis]) | 0;
    if (place.motion) motion.moved[axis] = (there - from) | 0;
    if (axis < place.dims) out[at + axis] = within(there, place.extent);
  }
  const longest = Math.max(length(residual[0]), length(residual[1]), length(residual[2]));
  return longest === 0 ? 0 : longest <= 4 ? 1 : FAR;
}

function within(v: number, extent: number): number {
  return v < -extent ? -extent : v > extent ? extent : v;
}

function readFacing(c: Decoder, kind: Kind, age: number, miss: number, out: Int32Array, to: number): void {
  let [yaw, pitch] = [0, 0];
  if (c.bit(C.FACING + ageClass(age) * 3 + miss) === 1) {
    yaw = c.value(C.YAW_LEN + miss * C.STEPS, C.YAW_SIGN, C.YAW_TREE, 6, 3);
    const turned = length(yaw);
    const turn = turned === 0 ? 0 : turned <= 2 ? 1 : turned <= 4 ? 2 : 3;
    pitch = c.value(C.PITCH_LEN + turn * C.STEPS, C.PITCH_SIGN, C.PITCH_TREE, 6, 1);
  }
  if (kind.yaw !== null) turnLane(out, to + kind.yaw.at, yaw, kind.yaw.steps);
  if (kind.pitch !== null) turnLane(out, to + kind.pitch.at, pitch, kind.pitch.steps);
}

function turnLane(out: Int32Array, at: number, by: number, steps: number): void {
  const turned = ((out[at] + by) | 0) % steps;
  out[at] = turned < 0 ? turned + steps : turned;
}

function readOthers(c: Decoder, kind: Kind, whole: number, out: Int32Array, to: number): void {
  if (c.bit(C.OTHERS + whole) === 0) return;
  const others = kind.others;
  for (let n = 0; n < others.length; n += 2) {
    const nth = n >> 1;
    if (c.bit(C.FIELD + whole * 16 + (nth < 15 ? nth : 15)) === 0) continue;
    const single = others[n + 1] - others[n] === 1;
    for (let lane = others[n]; lane < others[n + 1]; lane++) readLane(c, kind, lane, single, whole, out, to + lane);
  }
}

/** Reads one lane of a field that changed. `single`: it is the field's only lane, so it did change. */
function readLane(
  c: Decoder,
  kind: Kind,
  lane: number,
  single: boolean,
  whole: number,
  out: Int32Array,
  at: number,
): void {
  const size = kind.sizes[lane];
  switch (kind.classes[lane]) {
    case STEP:
      out[at] += c.plain(C.STEP + whole * C.PLAIN);
      return;
    case TURN:
      turnLane(out, at, c.plain(C.STEP + whole * C.PLAIN), size);
      return;
    case SYMBOL:
      if (single && size === 2) out[at] = out[at] === 0 ? 1 : 0;
      else out[at] = Math.min(c.raw(length(size - 1)), size - 1);
      return;
    default:
      if (c.bit(C.WORD) === 1) out[at] = c.raw(32);
  }
}
