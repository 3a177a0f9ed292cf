/**
 * The part of postcard that sessions need: varints, strings, options. Invalid bytes throw `ReadError` and nothing else.
 */

/** Invalid bytes. None of them was used. */
export class ReadError extends Error {
  override readonly name = "ReadError";
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });
const TO_UTF8 = new TextEncoder();

/** Reads values one after the other. */
export class Reader {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  /** Bytes that are left. */
  get left(): number {
    return this.bytes.length - this.at;
  }

  u8(): number {
    if (this.at >= this.bytes.length) throw new ReadError("the bytes end too soon");
    return this.bytes[this.at++];
  }

  i8(): number {
    return (this.u8() << 24) >> 24;
  }

  bool(): boolean {
    const byte = this.u8();
    if (byte > 1) throw new ReadError(`${byte} is no boolean`);
    return byte === 1;
  }

  /** Two raw bytes, least significant first. */
  plain16(): number {
    const low = this.u8();
    return low | (this.u8() << 8);
  }

  u16(): number {
    return this.varint(3, 0xffff);
  }

  u32(): number {
    return this.varint(5, 0xffff_ffff);
  }

  /** At most 2⁵³; lengths and times are never larger. */
  u53(): number {
    const value = this.u64();
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new ReadError(`${value} is too large`);
    return Number(value);
  }

  u64(): bigint {
    let value = 0n;
    for (let n = 0n; n < 10n; n++) {
      const byte = this.u8();
      value |= BigInt(byte & 0x7f) << (7n * n);
      if (byte < 0x80) {
        if (value >> 64n !== 0n) break;
        return value;
      }
    }
    throw new ReadError("a number is too long");
  }

  i16(): number {
    return unzigzag(this.u16());
  }

  i32(): number {
    return unzigzag(this.u32());
  }

  option<T>(inner: () => T): T | null {
    return this.bool() ? inner() : null;
  }

  raw(count: number): Uint8Array {
    if (count > this.left) throw new ReadError("the bytes end too soon");
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  bytesValue(): Uint8Array {
    return this.raw(this.u32());
  }

  text(): string {
    return utf8(this.bytesValue());
  }

  /** The rest of the bytes. */
  rest(): Uint8Array {
    return this.raw(this.left);
  }

  private varint(longest: number, most: number): number {
    let value = 0;
    let scale = 1;
    for (let n = 0; n < longest; n++) {
      const byte = this.u8();
      value += (byte & 0x7f) * scale;
      scale *= 128;
      if (byte < 0x80) {
        if (value > most) break;
        return value;
      }
    }
    throw new ReadError("a number is too long");
  }
}

/** Text as UTF-8. */
export function utf8(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new ReadError("a text is no UTF-8");
  }
}

function unzigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/** Writes values one after the other. */
export class Writer {
  private bytes = new Uint8Array(64);
  private length = 0;

  /** The bytes written so far; valid until the next write. */
  view(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }

  /** A copy of the bytes written so far. */
  finish(): Uint8Array {
    return this.bytes.slice(0, this.length);
  }

  clear(): void {
    this.length = 0;
  }

  u8(value: number): void {
    this.room(1);
    this.bytes[this.length++] = value;
  }

  i8(value: number): void {
    this.u8(value & 0xff);
  }

  bool(value: boolean): void {
    this.u8(value ? 1 : 0);
  }

  plain16(value: number): void {
    this.u8(value & 0xff);
    this.u8((value >> 8) & 0xff);
  }

  plain32(value: number): void {
    this.plain16(value & 0xffff);
    this.plain16(value >>> 16);
  }

  u16(value: number): void {
    this.u32(value & 0xffff);
  }

  u32(value: number): void {
    let rest = value >>> 0;
    while (rest >= 0x80) {
      this.u8((rest & 0x7f) | 0x80);
      rest >>>= 7;
    }
    this.u8(rest);
  }

  u64(value: bigint): void {
    let rest = BigInt.asUintN(64, value);
    while (rest >= 0x80n) {
      this.u8(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    this.u8(Number(rest));
  }

  i16(value: number): void {
    this.u16((value << 1) ^ (value >> 15));
  }

  i32(value: number): void {
    this.u32((value << 1) ^ (value >> 31));
  }

  option<T>(value: T | null | undefined, inner: (value: T) => void): void {
    this.bool(value !== null && value !== undefined);
    if (value !== null && value !== undefined) inner(value);
  }

  raw(bytes: Uint8Array): void {
    this.room(bytes.length);
    this.bytes.set(bytes, this.length);
    this.length += bytes.length;
  }

  bytesValue(bytes: Uint8Array): void {
    this.u32(bytes.length);
    this.raw(bytes);
  }

  text(text: string): void {
    this.bytesValue(TO_UTF8.encode(text));
  }

  private room(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(this.bytes.length * 2, this.length + count));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
  }
}
