/** Field types of `docs/WIRE.md`, section 9, and the text in which schemas write them (section 7). */

/** How a value becomes lanes, and the reverse. */
export type FieldType =
  | {
      readonly type: "Place";
      readonly dims: number;
      readonly precision: number;
      readonly extent: number;
      readonly motion: boolean;
    }
  | { readonly type: "Number"; readonly precision: number; readonly min: number; readonly max: number }
  | { readonly type: "Angle"; readonly steps: number }
  | { readonly type: "Integer"; readonly min: number; readonly max: number }
  | { readonly type: "Symbol"; readonly count: number }
  | { readonly type: "Quaternion"; readonly bits: number }
  | { readonly type: "Text" | "Bytes"; readonly max: number }
  | { readonly type: "Optional"; readonly inner: FieldType }
  | { readonly type: "List"; readonly item: FieldType; readonly max: number };

/** A schema is invalid, or its text cannot be parsed. */
export class SchemaError extends Error {
  override readonly name = "SchemaError";
}

/** Class of a lane: a number whose difference is probably small. */
export const STEP = 0;
/** Class of a lane: a number modulo a number of steps. */
export const TURN = 1;
/** Class of a lane: one of several symbols. */
export const SYMBOL = 2;
/** Class of a lane: four bytes of text or data. */
export const WORD = 3;

/** The class of a lane, with the steps of its turn or the number of its symbols. */
export type Lane = readonly [cls: number, size: number];

const A_STEP: Lane = [STEP, 0];
const A_WORD: Lane = [WORD, 0];

/** Number of lanes of a value. */
export function laneCount(ty: FieldType): number {
  switch (ty.type) {
    case "Place":
      return ty.dims;
    case "Quaternion":
      return 4;
    case "Text":
    case "Bytes":
      return 1 + Math.ceil(ty.max / 4);
    case "Optional":
      return 1 + laneCount(ty.inner);
    case "List":
      return 1 + ty.max * laneCount(ty.item);
    default:
      return 1;
  }
}

/** The lanes of a type, in order. Check with `laneCount` first that there are not too many. */
export function lanesOf(ty: FieldType): Lane[] {
  switch (ty.type) {
    case "Place":
    case "Number":
    case "Integer":
      return Array<Lane>(laneCount(ty)).fill(A_STEP);
    case "Angle":
      return [[TURN, ty.steps]];
    case "Symbol":
      return [[SYMBOL, ty.count]];
    case "Quaternion":
      return [[SYMBOL, 4], A_STEP, A_STEP, A_STEP];
    case "Text":
    case "Bytes":
      return [A_STEP, ...Array<Lane>(Math.ceil(ty.max / 4)).fill(A_WORD)];
    case "Optional":
      return [[SYMBOL, 2], ...lanesOf(ty.inner)];
    case "List": {
      const item = lanesOf(ty.item);
      return [A_STEP, ...Array.from({ length: ty.max }, () => item).flat()];
    }
  }
}

const TOKEN = /\s*([A-Za-z_]+|-?\d[\d.e+-]*|[{}(),:])/y;
const NUMBER = /^-?\d/;

/** Parses a type as schemas write it. */
export function parseType(text: string): FieldType {
  const words: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const found = TOKEN.exec(text);
    if (found === null) throw new SchemaError(`'${text}' is no type`);
    words.push(found[1]);
  }
  const parser = new Parser(words);
  const ty = parser.type();
  if (parser.left > 0) throw new SchemaError(`'${text}' goes on after its type`);
  return ty;
}

class Parser {
  private at = 0;

  constructor(private readonly words: readonly string[]) {}

  get left(): number {
    return this.words.length - this.at;
  }

  type(): FieldType {
    const name = this.next();
    if (name === "Optional") {
      this.expect("(");
      const inner = this.type();
      this.expect(")");
      return { type: "Optional", inner };
    }
    this.expect("{");
    const parts = new Map<string, number | boolean | FieldType>();
    while (!this.accept("}")) {
      const key = this.next();
      this.expect(":");
      parts.set(key, key === "item" ? this.type() : this.value());
      this.accept(",");
    }
    return checked(name, parts);
  }

  private value(): number | boolean {
    const word = this.next();
    if (word === "true" || word === "false") return word === "true";
    if (!NUMBER.test(word)) throw new SchemaError(`'${word}' is no number`);
    // A number with a fraction is a 32-bit float.
    return /[.e]/.test(word) ? Math.fround(Number(word)) : Number(word);
  }

  private next(): string {
    if (this.at >= this.words.length) throw new SchemaError("a type ends too soon");
    return this.words[this.at++];
  }

  private accept(word: string): boolean {
    if (this.words[this.at] !== word) return false;
    this.at++;
    return true;
  }

  private expect(word: string): void {
    const found = this.next();
    if (found !== word) throw new SchemaError(`'${found}' stands where '${word}' should`);
  }
}

/** Checks that a type's numbers are valid. */
function checked(name: string, parts: ReadonlyMap<string, number | boolean | FieldType>): FieldType {
  const number = (key: string): number => {
    const found = parts.get(key);
    if (typeof found !== "number") throw new SchemaError(`${name} without ${key}`);
    return found;
  };
  const within = (key: string, low: number, high: number): number => {
    const found = number(key);
    if (Number.isInteger(found) && found >= low && found <= high) return found;
    throw new SchemaError(`${name}.${key} is ${found}; expected ${low} to ${high}`);
  };
  switch (name) {
    case "Place": {
      const [precision, extent] = [number("precision"), number("extent")];
      stepsFit(name, precision, -extent, extent);
      return { type: name, dims: within("dims", 2, 3), precision, extent, motion: parts.get("motion") === true };
    }
    case "Number": {
      const [precision, min, max] = [number("precision"), number("min"), number("max")];
      stepsFit(name, precision, min, max);
      return { type: name, precision, min, max };
    }
    case "Angle":
      return { type: name, steps: within("steps", 2, 65_536) };
    case "Integer": {
      const [min, max] = [within("min", -(2 ** 31), 2 ** 31 - 1), within("max", -(2 ** 31), 2 ** 31 - 1)];
      if (min >= max) throw new SchemaError(`Integer from ${min} to ${max}`);
      return { type: name, min, max };
    }
    case "Symbol":
      return { type: name, count: within("count", 2, 65_536) };
    case "Quaternion":
      return { type: name, bits: within("bits", 4, 15) };
    case "Text":
    case "Bytes":
      return { type: name, max: within("max", 1, 512) };
    case "List": {
      const item = parts.get("item");
      if (typeof item !== "object") throw new SchemaError("List without item");
      return { type: name, item, max: within("max", 1, 128) };
    }
    default:
      throw new SchemaError(`'${name}' is no type`);
  }
}

function stepsFit(name: string, precision: number, min: number, max: number): void {
  const most = 2 ** 28;
  const fits = precision > 0 && min < max && Math.abs(min / precision) <= most && Math.abs(max / precision) <= most;
  if (!fits) throw new SchemaError(`${name}: ${min} to ${max} in steps of ${precision}; at most 2^28 steps`);
}
