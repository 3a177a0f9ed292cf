/** Where the project's own files are, for tests, which run from `dist/test`. */
import { readFileSync } from "node:fs";

const ROOT = new URL("../../../../", import.meta.url);

/** A file of the project, by its path from the root. */
export function projectFile(path: string): URL {
  return new URL(path, ROOT);
}

export function readText(path: string): string {
  return readFileSync(projectFile(path), "utf-8");
}

/** The cases of a file of golden vectors. */
export function cases<T>(name: string): T[] {
  return JSON.parse(readText(`vectors/${name}.json`)) as T[];
}

export function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

/** A small seeded generator (mulberry32): tests are the same on every run. */
export function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
