/** Schemas: their text, their hash, and the layout of each kind. Sections 1, 7 and 9 of `docs/WIRE.md`. */
import { SchemaError, laneCount, lanesOf, parseType } from "./types.js";
import type { FieldType } from "./types.js";

export { SchemaError } from "./types.js";

export const MAX_KINDS = 256;
export const MAX_FIELDS = 64;
export const MAX_RECORD_BYTES = 1024;
/** Lanes of every kind before its own: owner and epoch. */
export const HIDDEN_LANES = 2;

/** What a field means to the coder. */
export type Role = "Plain" | "Place" | "Yaw" | "Pitch";

/** One field of a kind. */
export interface Field {
  readonly name: string;
  readonly type: FieldType;
  readonly role: Role;
  /** Smaller deviations are not sent. */
  readonly floor: number;
  /** Sent only to observers that look from the object; for others its lanes are zero. */
  readonly own: boolean;
  /** Its first lane, and the number of its lanes. */
  readonly at: number;
  readonly count: number;
}

/** The place lanes of a kind. */
export interface PlaceLanes {
  readonly at: number;
  readonly dims: number;
  readonly motion: boolean;
  readonly precision: number;
  /** Coordinates are within ± this many steps, and take this many bits. */
  readonly extent: number;
  readonly bits: number;
}

/** A facing's lane, and the number of steps in a turn. */
export interface TurnLane {
  readonly at: number;
  readonly steps: number;
}

/** A kind of object. */
export interface Kind {
  readonly name: string;
  /** Its number, which is its index in the schema. */
  readonly number: number;
  readonly fields: readonly Field[];
  /** The largest speed of its objects, in units per second. */
  readonly maxSpeed: number;
  /** Free fall in steps per tick²; 0 for none, or without a place. */
  readonly fall: number;
  readonly lanes: number;
  /** The class of each lane, and its size: see `Lane`. */
  readonly classes: Uint8Array;
  readonly sizes: Int32Array;
  readonly place: PlaceLanes | null;
  readonly yaw: TurnLane | null;
  readonly pitch: TurnLane | null;
  /** First and last + 1 lane of fields without a role, starting with owner and epoch. */
  readonly others: Int32Array;
}

/** All kinds, on which both ends of a link must agree. */
export class Schema {
  private constructor(
    readonly text: string,
    readonly hash: bigint,
    readonly kinds: readonly Kind[],
  ) {}

  /** Reads a schema's text. */
  static parse(text: string): Schema {
    const drafts: Draft[] = [];
    for (const line of text.split("\n")) {
      if (line !== "") addLine(drafts, line);
    }
    if (drafts.length > MAX_KINDS) throw new SchemaError(`${drafts.length} kinds; at most ${MAX_KINDS} are possible`);
    return new Schema(text, fnv(text), drafts.map(compile));
  }

  /** The kind with this name. */
  kind(name: string): Kind | undefined {
    return this.kinds.find((kind) => kind.name === name);
  }
}

/** Describes where two schemas' texts first differ; empty if they are equal. */
export function difference(here: string, there: string): string {
  const [ours, theirs] = [here.split("\n"), there.split("\n")];
  const at = ours.findIndex((line, n) => line !== theirs[n]);
  const line = at < 0 ? ours.length : at;
  if (at < 0 && theirs.length <= ours.length) return "";
  const say = (lines: string[]): string => lines[line] || "nothing";
  return `schemas differ first at line ${line + 1}: here '${say(ours)}', there '${say(theirs)}'`;
}

/** A field of a kind, by its name. */
export function fieldOf(kind: Kind, name: string): Field | undefined {
  return kind.fields.find((field) => field.name === name);
}

interface Draft {
  readonly name: string;
  readonly maxSpeed: number;
  readonly fall: number;
  readonly fields: Field[];
}

const KIND_LINE = /^([^.:]+): max_speed=(\S+) fall=(-?\d+)$/;
const FIELD_LINE = /^([^.:]+)\.([^:]+): (.+) role=(Plain|Place|Yaw|Pitch) floor=(\S+?)( own)?$/;

function addLine(drafts: Draft[], line: string): void {
  const kind = KIND_LINE.exec(line);
  if (kind !== null) {
    const [, name, speed, fall] = kind;
    if (drafts.some((draft) => draft.name === name)) throw new SchemaError(`kind '${name}' is given twice`);
    drafts.push({ name, maxSpeed: float(speed, line), fall: Number(fall) | 0, fields: [] });
    return;
  }
  const field = FIELD_LINE.exec(line);
  const draft = drafts.at(-1);
  if (field === null || draft === undefined || field[1] !== draft.name) throw new SchemaError(`'${line}' is no kind and no field`);
  addField(draft, field, line);
}

function addField(draft: Draft, [, kind, name, text, roleText, floor, own]: RegExpExecArray, line: string): void {
  const [type, role] = [parseType(text), roleText as Role];
  const before = draft.fields;
  if (before.some((other) => other.name === name || (role !== "Plain" && other.role === role))) {
    throw new SchemaError(`${kind}.${name}: its name or its role is given twice`);
  }
  const fits = role === "Plain" || type.type === (role === "Place" ? "Place" : "Angle");
  if (!fits) throw new SchemaError(`${kind}.${name}: role ${role} on ${type.type}`);
  if (before.length >= MAX_FIELDS) throw new SchemaError(`${kind}: more than ${MAX_FIELDS} fields`);
  const last = before.at(-1);
  const at = last === undefined ? HIDDEN_LANES : last.at + last.count;
  const count = laneCount(type);
  const bytes = (at + count) * 5 + 48;
  if (bytes > MAX_RECORD_BYTES) {
    throw new SchemaError(`${kind}: an object may take ${bytes} bytes; at most ${MAX_RECORD_BYTES} fit a packet`);
  }
  before.push({ name, type, role, floor: float(floor, line), own: own !== undefined, at, count });
}

function float(text: string, line: string): number {
  const value = Math.fround(Number(text));
  if (!(value >= 0 && Number.isFinite(value))) throw new SchemaError(`'${line}': ${text} is no number of at least 0`);
  return value;
}

function compile(draft: Draft, number: number): Kind {
  const { name, fields, maxSpeed } = draft;
  const lanes = [[0, 0] as const, [0, 0] as const, ...fields.flatMap((field) => lanesOf(field.type))];
  const role = (wanted: Role): Field | undefined => fields.find((field) => field.role === wanted);
  const turn = (field: Field | undefined): TurnLane | null =>
    field?.type.type === "Angle" ? { at: field.at, steps: field.type.steps } : null;
  const place = placeLanes(role("Place"));
  const plain = fields.filter((field) => field.role === "Plain");
  return {
    name,
    number,
    fields,
    maxSpeed,
    fall: place === null ? 0 : draft.fall,
    lanes: lanes.length,
    classes: Uint8Array.from(lanes, (lane) => lane[0]),
    sizes: Int32Array.from(lanes, (lane) => lane[1]),
    place,
    yaw: turn(role("Yaw")),
    pitch: turn(role("Pitch")),
    others: Int32Array.from([0, HIDDEN_LANES, ...plain.flatMap((field) => [field.at, field.at + field.count])]),
  };
}

function placeLanes(field: Field | undefined): PlaceLanes | null {
  if (field?.type.type !== "Place") return null;
  const { dims, precision, extent, motion } = field.type;
  const steps = Math.round(extent / precision);
  return { at: field.at, dims, motion, precision, extent: steps, bits: 33 - Math.clz32(steps) };
}

/** 64-bit FNV-1a. */
function fnv(text: string): bigint {
  let hash = 0xcbf2_9ce4_8422_2325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100_0000_01b3n);
  }
  return hash;
}
