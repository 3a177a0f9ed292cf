/**
 * The range decoder: section 2 of `docs/WIRE.md`; and numbers, section 3.
 *
 * All arithmetic is unsigned 32-bit. The interval is stored in a typed array, which holds such numbers unboxed, so that
 * decoding a bit allocates nothing.
 */
import { TRAINED_BASE64 } from "./trained.js";
import * as C from "./contexts.js";

const RANGE = 0;
const CODE = 1;
const TOP = 2 ** 24;

/** The probabilities with which every packet starts. */
export const TRAINED: Uint16Array = (() => {
  const text = atob(TRAINED_BASE64);
  const table = new Uint16Array(C.CONTEXTS);
  for (let n = 0; n < C.CONTEXTS; n++) table[n] = text.charCodeAt(2 * n) | (text.charCodeAt(2 * n + 1) << 8);
  return table;
})();

/** Reads coded parts one after the other: call `start`, then the decoding methods. */
export class Decoder {
  private readonly p = new Uint16Array(C.CONTEXTS);
  private readonly interval = new Uint32Array(2);
  private bytes: Uint8Array = new Uint8Array(0);
  private at = 0;

  /** Starts a coded part at `from`. */
  start(bytes: Uint8Array, from: number): void {
    this.p.set(TRAINED);
    this.bytes = bytes;
    this.at = from;
    this.interval[RANGE] = 0xffff_ffff;
    let code = 0;
    for (let n = 0; n < 4; n++) code = (code << 8) | this.nextByte();
    this.interval[CODE] = code;
  }

  /** After the end every byte is 0, since the writer drops such bytes. */
  private nextByte(): number {
    const at = this.at++;
    return at < this.bytes.length ? this.bytes[at] : 0;
  }

  /** A modelled bit. */
  bit(context: number): number {
    const interval = this.interval;
    const p = this.p[context];
    let range = interval[RANGE];
    let code = interval[CODE];
    const bound = Math.imul(range >>> 15, p) >>> 0;
    let bit = 0;
    if (code >= bound) {
      bit = 1;
      code -= bound;
      range -= bound;
      this.p[context] = p - (p >> 4);
    } else {
      range = bound;
      this.p[context] = p + ((32768 - p) >> 4);
    }
    while (range < TOP) {
      code = ((code << 8) | this.nextByte()) >>> 0;
      range = (range << 8) >>> 0;
    }
    interval[RANGE] = range;
    interval[CODE] = code;
    return bit;
  }

  /** `count` raw bits, at most 32. */
  raw(count: number): number {
    if (count <= 16) return count > 0 ? this.part(count) : 0;
    const high = this.part(16);
    const low = count - 16;
    return ((high << low) | this.part(low)) >>> 0;
  }

  private part(count: number): number {
    const interval = this.interval;
    let range = interval[RANGE] >>> count;
    let code = interval[CODE];
    const most = (1 << count) - 1;
    // This is exact: a quotient of 32-bit numbers is never rounded up to the next integer in a double.
    const share = Math.floor(code / range);
    const part = share < most ? share : most;
    code -= part * range;
    while (range < TOP) {
      code = ((code << 8) | this.nextByte()) >>> 0;
      range = (range << 8) >>> 0;
    }
    interval[RANGE] = range;
    interval[CODE] = code;
    return part;
  }

  /** A signed number. */
  value(len: number, sign: number, tree: number, expect: number, pivot: number): number {
    const length = this.length(len, expect, pivot);
    if (length === 0) return 0;
    const negative = this.bit(sign + near(length, expect)) === 1;
    const magnitude = this.below(tree, length);
    return negative ? -magnitude | 0 : magnitude | 0;
  }

  /** A signed plain number of the family that starts at `family`. */
  plain(family: number): number {
    return this.value(family, family + C.STEPS, family + C.STEPS + C.SIGNS, 6, 1);
  }

  /** An unsigned plain number. */
  count(family: number): number {
    const length = this.length(family, 6, 3);
    return length === 0 ? 0 : this.below(family + C.STEPS + C.SIGNS, length);
  }

  private length(len: number, expect: number, pivot: number): number {
    let n = pivot < 31 ? pivot : 31;
    if (this.longer(len, expect, n) === 1) {
      n++;
      while (n < 32 && this.longer(len, expect, n) === 1) n++;
      return n;
    }
    while (n > 0 && this.longer(len, expect, n - 1) === 0) n--;
    return n;
  }

  private longer(len: number, expect: number, n: number): number {
    return this.bit(len + (n === 0 ? 0 : n === 1 ? 7 : 15) + near(n, expect));
  }

  /** A magnitude of `length` bits, whose leading bit is known. */
  private below(tree: number, length: number): number {
    const below = length - 1;
    const modelled = below < 3 ? below : 3;
    const at = tree + treeAt(length) - 1;
    let prefix = 1;
    for (let k = 0; k < modelled; k++) prefix = (prefix << 1) | this.bit(at + prefix);
    const rest = below - modelled;
    return rest === 0 ? prefix : ((prefix << rest) | this.raw(rest)) >>> 0;
  }
}

/** The start of a length's tree: two bits have one below the leading one, three have two. */
function treeAt(length: number): number {
  return length <= 3 ? (length === 3 ? 1 : 0) : 4 + ((length < 10 ? length : 10) - 4) * 7;
}

function near(n: number, expect: number): number {
  const above = n + 6 - expect;
  return above < 0 ? 0 : above > 9 ? 9 : above;
}

/** The bit length of a 32-bit number's absolute value; −2³¹ has 32. */
export function length(v: number): number {
  return 32 - Math.clz32(v < 0 ? -v : v);
}
