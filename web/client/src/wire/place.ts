/** Places: sections 6.1 and 6.2 of `docs/WIRE.md`. Numbers wrap to 32 bits where the document says so. */
import * as C from "./contexts.js";
import { length } from "./coder.js";
import type { Decoder } from "./coder.js";
import type { PlaceLanes } from "./schema.js";

/** Most rounds for which a motion is extrapolated. */
export const HORIZON = 40;

/** Three coordinates in steps. */
export type Steps = [x: number, y: number, z: number];

/** The rounds over which a motion is averaged. */
function spanOf(ticks: number): number {
  return ticks < 1 ? 1 : ticks > 65_536 ? 65_536 : ticks;
}

/** Where a motion of `moved` steps in `ticks` ticks leads in some rounds, on one axis. */
export function way(moved: number, ticks: number, rounds: number): number {
  const t = spanOf(ticks);
  const r = rounds < HORIZON ? rounds : HORIZON;
  return Math.floor((2 * moved * r + t) / (2 * t)) | 0;
}

/** Class of a baseline's age. */
export function ageClass(age: number): number {
  return age <= 4 ? (age < 1 ? 0 : age - 1) : age <= 8 ? 4 : 5;
}

function signClass(v: number): number {
  return v < 0 ? 0 : v === 0 ? 1 : 2;
}

/** Free fall within a packet: what the kind states, or what two equal falls in a row show. */
export class Fall {
  private stated = 0;
  private known = 0;
  private candidate = 0;
  private begun = false;

  /** Starts a packet. */
  restart(): void {
    this.begun = false;
  }

  /** Sets the stated fall of the next state's kind. */
  of(stated: number): void {
    if (this.begun && this.stated === stated) return;
    this.begun = true;
    this.stated = stated;
    this.known = stated;
    this.candidate = 0;
  }

  get isKnown(): boolean {
    return this.known !== 0;
  }

  /** The residual of free fall. */
  residual(unit: number): number {
    return -Math.floor((this.known * unit) / 2) | 0;
  }

  /** Learns from a residual that was coded as a number. */
  learn(unit: number, residual: number): void {
    if (this.stated !== 0 || residual >= 0 || (-2 * residual) % unit !== 0) return;
    const found = Math.min((-2 * residual) / unit, 2 ** 31 - 1);
    if (found === this.candidate) this.known = found;
    this.candidate = found;
  }
}

/** Twice the residual of free fall by one step per tick². */
function fallUnit(age: number, ticks: number): number {
  const a = age < 1024 ? age : 1024;
  const span = spanOf(ticks);
  return a * (a + (span < 1024 ? span : 1024));
}

/** Reads the target of a jump into `out`, which has its start. */
export function readJump(c: Decoder, place: PlaceLanes, out: Steps): void {
  for (let axis = 0; axis < 3; axis++) {
    const vertical = axis === 2 ? 1 : 0;
    const width = vertical === 1 && place.dims === 2 ? 0 : place.bits;
    const lens = C.J_LEN + vertical * C.STEPS;
    const signs = C.J_SIGN + vertical * C.SIGNS;
    const by = c.value(lens, signs, C.J_TREE, width > 4 ? width - 4 : 0, width > 5 ? width - 5 : 0);
    out[axis] = (out[axis] + by) | 0;
  }
}

/** Reads an absolute place into `out`. */
export function readAbsolute(c: Decoder, place: PlaceLanes, out: Steps): void {
  const wide = c.bit(C.WIDE) === 1;
  const flat = place.dims === 2;
  const bits = wide ? 32 : place.bits;
  out[0] = (c.raw(bits) - place.extent) | 0;
  out[1] = (c.raw(bits) - place.extent) | 0;
  out[2] = flat ? c.raw(wide ? 32 : 0) | 0 : (c.raw(bits) - place.extent) | 0;
}

/** What the vertical axis did; set by `readVertical` for `readLevel`. */
let lift = 0;

/** Reads the residual of a place relative to its prediction into `out`. `w`: the distance that its motion predicts. */
export function readResidual(c: Decoder, fall: Fall, w: Steps, age: number, ticks: number, out: Steps): void {
  out[2] = readVertical(c, fall, w, age, ticks);
  readLevel(c, w, age, out);
}

function riseClass(w: Steps, age: number): number {
  const z = w[2];
  if (z === 0) return w[0] !== 0 || w[1] !== 0 ? 1 : 0;
  const size = length(Math.floor(Math.abs(z) / age));
  return 2 + (size <= 3 ? 0 : size <= 6 ? 1 : 2) + (z < 0 ? 3 : 0);
}

function readVertical(c: Decoder, fall: Fall, w: Steps, age: number, ticks: number): number {
  const z = w[2];
  const rise = riseClass(w, age);
  const at = rise * 6 + ageClass(age);
  if (c.bit(C.Z_SAME + at) === 0) {
    lift = z === 0 ? 0 : 3;
    return 0;
  }
  if (z !== 0 && c.bit(C.Z_STAY + at) === 0) {
    lift = 1;
    return -z | 0;
  }
  const unit = fallUnit(age, ticks);
  if (fall.isKnown && c.bit(C.Z_FALL + at) === 0) {
    lift = 2;
    return fall.residual(unit);
  }
  lift = 4;
  // On the ground the horizontal distance sets the scale; in the air the vertical one.
  const level = Math.min(Math.max(Math.abs(w[0]), Math.abs(w[1])), 2 ** 31 - 1);
  const expect = length(z !== 0 ? z : level);
  const tree = C.Z_TREE + signClass(z) * C.TREES;
  const [lens, signs] = [C.Z_LEN + rise * C.STEPS, C.Z_SIGN + rise * C.SIGNS];
  const r = c.value(lens, signs, tree, expect, expect > 3 ? expect - 3 : 0);
  fall.learn(unit, r);
  return r;
}

/** Distances are clamped to this for frames, so that squares stay exact in a double. */
const FARTHEST = 2 ** 22;

function frameSide(v: number): number {
  return v < -FARTHEST ? -FARTHEST : v > FARTHEST ? FARTHEST : v;
}

/** factor · v / 4096, rounded. */
function shear(factor: number, v: number): number {
  return Math.floor((factor * v + 2048) / 4096);
}

/** The class of a speed: 0 at rest, else 1 plus the quarter of its octave. */
function paceClass(speed: number, moving: number): number {
  const s = Math.floor((25 * (speed < 2 ** 20 ? speed : 2 ** 20)) / 16);
  return moving + (s > 1 ? ((2 * s) >> (length(s) - 2)) & 3 : 0);
}

/** Class of the length along the motion relative to the scale: zero, then by octaves. */
function gapClass(along: number, scale: number): number {
  if (along === 0) return 0;
  const gap = 6 + length(along) - scale;
  return gap < 1 ? 1 : gap > 7 ? 7 : gap;
}

/** Coarse classes of lift: on the ground, in the air, other. */
const AIR = Uint8Array.of(0, 2, 1, 1, 2);

function readLevel(c: Decoder, w: Steps, age: number, out: Steps): void {
  const x = frameSide(w[0]);
  const y = frameSide(w[1]);
  const [ax, ay] = [Math.abs(x), Math.abs(y)];
  const long = ax > ay ? ax : ay;
  const short = ax > ay ? ay : ax;
  const size = Math.floor(Math.sqrt(long * long + short * short));
  const scale = Math.min(length(size + (size >> 1)), 13);
  const at = scale * 5 + lift;
  if (c.bit(C.H_SAME + at) === 0) {
    out[0] = 0;
    out[1] = 0;
    return;
  }
  const moving = size > 0 ? 1 : 0;
  if (moving === 1 && c.bit(C.H_STOP + at) === 0) {
    out[0] = -w[0] | 0;
    out[1] = -w[1] | 0;
    return;
  }
  const span = age <= 1 ? 0 : age <= 4 ? 1 : 2;
  const pace = paceClass(Math.floor(size / age), moving);
  const lens = C.A_LEN + ((pace * 3 + span) * 3 + AIR[lift]) * C.STEPS;
  const signs = C.A_SIGN + (span * 5 + lift) * C.SIGNS;
  const along = c.value(lens, signs, C.A_TREE + moving * C.TREES, scale, scale > 5 ? scale - 5 : 0);
  const expect = length(along);
  const across = c.value(
    C.B_LEN + (gapClass(along, scale) * 3 + AIR[lift]) * C.STEPS,
    C.B_SIGN + signClass(along) * C.SIGNS,
    C.B_TREE + moving * C.TREES,
    expect,
    expect > 2 ? expect - 2 : 0,
  );
  // Back from the frame: three shears are a rotation that is lossless on integers.
  const half = size > 0 ? Math.floor((short * 4096) / (size + long)) : 0;
  const sine = size > 0 ? Math.floor((short * 4096) / size) : 0;
  let u = (along - shear(half, across)) | 0;
  const v = (across + shear(sine, u)) | 0;
  u = (u - shear(half, v)) | 0;
  const swap = ay > ax;
  const rx = swap ? v : u;
  const ry = swap ? u : v;
  out[0] = x < 0 ? -rx | 0 : rx;
  out[1] = y < 0 ? -ry | 0 : ry;
}
