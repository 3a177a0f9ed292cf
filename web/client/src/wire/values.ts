/** Values ⇄ lanes: section 9 of `docs/WIRE.md`. Numbers from the network are clamped to their range. */
import { laneCount } from "./types.js";
import type { FieldType } from "./types.js";
import type { Kind } from "./schema.js";

/**
 * A field's value: numbers and integers as numbers, angles in radians, a symbol as the index of its variant (a bool is
 * 0 or 1), places and quaternions as lists of numbers, a missing value as null.
 */
export type FieldValue = number | number[] | string | Uint8Array | null | FieldValue[];

const f32 = Math.fround;
const TAU = f32(2 * Math.PI);
const UTF8 = new TextDecoder("utf-8");
const TO_UTF8 = new TextEncoder();

/** Rounds halves away from zero. */
export function round(value: number): number {
  const whole = Math.trunc(value);
  return Math.abs(value - whole) >= 0.5 ? whole + Math.sign(value) : whole;
}

function clamp(value: number, low: number, high: number): number {
  return value < low ? low : value > high ? high : value;
}

/** An angle in radians as steps of a turn. */
export function angleToSteps(radians: number, steps: number): number {
  const turn = f32(f32(radians) / TAU);
  if (!Number.isFinite(turn)) return 0;
  return round((turn - Math.floor(turn)) * steps) % steps;
}

/** Steps of a turn as radians in (−π, π]. */
export function stepsToAngle(step: number, steps: number): number {
  const turn = (((step % steps) + steps) % steps) / steps;
  return f32((turn > 0.5 ? turn - 1 : turn) * TAU);
}

/** The value in a field's lanes, which start at `at`. */
export function readValue(type: FieldType, lanes: Int32Array, at: number): FieldValue {
  const lane = lanes[at];
  switch (type.type) {
    case "Place": {
      const part = (axis: number): number => clamp(f32(lanes[at + axis] * type.precision), -type.extent, type.extent);
      return type.dims === 3 ? [part(0), part(1), part(2)] : [part(0), part(1)];
    }
    case "Number":
      return clamp(f32(lane * type.precision), type.min, type.max);
    case "Angle":
      return stepsToAngle(lane, type.steps);
    case "Integer":
      return clamp(lane, type.min, type.max);
    case "Symbol":
      if (type.count === 2) return lane & 1;
      return lane >= 0 && lane < type.count ? lane : 0;
    case "Quaternion":
      return readQuaternion(type.bits, lanes, at);
    case "Text":
      return UTF8.decode(readBytes(type.max, lanes, at));
    case "Bytes":
      return readBytes(type.max, lanes, at);
    case "Optional":
      return (lane & 1) === 1 ? readValue(type.inner, lanes, at + 1) : null;
    case "List": {
      const each = laneCount(type.item);
      const count = clamp(lane, 0, type.max);
      return Array.from({ length: count }, (_, n) => readValue(type.item, lanes, at + 1 + n * each));
    }
  }
}

/** All fields of a state by name, with `owner` and `epoch`. */
export function readState(kind: Kind, lanes: Int32Array): Record<string, FieldValue> {
  const out: Record<string, FieldValue> = { owner: lanes[0] >>> 0, epoch: lanes[1] >>> 0 };
  for (const field of kind.fields) out[field.name] = readValue(field.type, lanes, field.at);
  return out;
}

/** Writes a value into a field's lanes, which start at `at`. A value of the wrong type is written as zeros. */
export function writeValue(type: FieldType, value: FieldValue, lanes: Int32Array, at: number): void {
  lanes.fill(0, at, at + laneCount(type));
  switch (type.type) {
    case "Place":
      if (!Array.isArray(value)) return;
      for (let axis = 0; axis < type.dims; axis++) {
        lanes[at + axis] = toStep(Number(value[axis]), type.precision, -type.extent, type.extent);
      }
      return;
    case "Number":
      lanes[at] = toStep(Number(value), type.precision, type.min, type.max);
      return;
    case "Angle":
      lanes[at] = angleToSteps(Number(value), type.steps);
      return;
    case "Integer":
      lanes[at] = clamp(Math.trunc(Number(value)), type.min, type.max);
      return;
    case "Symbol":
      lanes[at] = clamp(Math.trunc(Number(value)), 0, type.count - 1);
      return;
    case "Quaternion":
      if (Array.isArray(value)) writeQuaternion(value.map(Number), type.bits, lanes, at);
      return;
    case "Text":
      if (typeof value === "string") writeBytes(wholeCharacters(TO_UTF8.encode(value), type.max), lanes, at);
      return;
    case "Bytes":
      if (value instanceof Uint8Array) writeBytes(value.subarray(0, type.max), lanes, at);
      return;
    case "Optional":
      if (value === null) return;
      lanes[at] = 1;
      writeValue(type.inner, value, lanes, at + 1);
      return;
    case "List": {
      if (!Array.isArray(value)) return;
      const [each, count] = [laneCount(type.item), Math.min(value.length, type.max)];
      lanes[at] = count;
      for (let n = 0; n < count; n++) writeValue(type.item, value[n], lanes, at + 1 + n * each);
    }
  }
}

function toStep(value: number, precision: number, min: number, max: number): number {
  const single = f32(value);
  return round((Number.isNaN(single) ? min : clamp(single, min, max)) / precision);
}

function readBytes(max: number, lanes: Int32Array, at: number): Uint8Array {
  const bytes = new Uint8Array(clamp(lanes[at], 0, max));
  for (let n = 0; n < bytes.length; n++) bytes[n] = lanes[at + 1 + (n >> 2)] >> ((n & 3) * 8);
  return bytes;
}

function writeBytes(bytes: Uint8Array, lanes: Int32Array, at: number): void {
  lanes[at] = bytes.length;
  bytes.forEach((byte, n) => (lanes[at + 1 + (n >> 2)] |= byte << ((n & 3) * 8)));
}

/** As many bytes as fit without splitting a character. */
function wholeCharacters(bytes: Uint8Array, max: number): Uint8Array {
  let end = Math.min(bytes.length, max);
  while (end > 0 && end < bytes.length && (bytes[end] & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}

function quaternionStep(bits: number): number {
  return f32(f32(Math.SQRT1_2) / (2 ** (bits - 1) - 1));
}

function readQuaternion(bits: number, lanes: Int32Array, at: number): number[] {
  const [largest, most, step] = [lanes[at] & 3, 2 ** (bits - 1) - 1, quaternionStep(bits)];
  const parts = [0, 0, 0, 0];
  let square = 0;
  for (let part = 0, lane = at + 1; part < 4; part++) {
    if (part === largest) continue;
    parts[part] = f32(clamp(lanes[lane++], -most, most) * step);
    square = f32(square + f32(parts[part] * parts[part]));
  }
  // Three components at their limit have a square of 1.5: scale them back to the unit sphere.
  const scale = square > 1 ? f32(1 / f32(Math.sqrt(square))) : 1;
  for (let part = 0; part < 4; part++) parts[part] = f32(parts[part] * scale);
  parts[largest] = f32(Math.sqrt(Math.max(f32(1 - f32(f32(square * scale) * scale)), 0)));
  return parts;
}

function writeQuaternion(parts: number[], bits: number, lanes: Int32Array, at: number): void {
  const q = [0, 1, 2, 3].map((part) => f32(parts[part] ?? 0));
  const norm = f32(Math.sqrt(q.reduce((sum, part) => f32(sum + f32(part * part)), 0)));
  const unit = Number.isFinite(norm) && norm > f32(1e-6) ? q.map((part) => f32(part / norm)) : [0, 0, 0, 1];
  let largest = 0;
  for (let part = 1; part < 4; part++) if (Math.abs(unit[part]) >= Math.abs(unit[largest])) largest = part;
  const [sign, step] = [unit[largest] < 0 ? -1 : 1, quaternionStep(bits)];
  lanes[at] = largest;
  for (let part = 0, lane = at + 1; part < 4; part++) {
    if (part !== largest) lanes[lane++] = round(f32((sign * unit[part]) / step));
  }
}
