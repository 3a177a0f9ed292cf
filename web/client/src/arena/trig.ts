/** Directions in integers, `arena/src/trig.rs`: 65,536 steps to a turn, and a sine table shared to the last bit. */

/** The value of 1.0 in results of `sin` and `cos`. */
export const ONE = 65_536;
const QUARTER = 16_384;
/**
 * Entry i is sin(i / 4096 turn) · 65536, rounded; none is near a tie, so that any floating-point sine gives the same
 * table.
 */
const TABLE = Int32Array.from({ length: 1025 }, (_, i) => Math.round(Math.sin((i / 4096) * 2 * Math.PI) * ONE));

/** Sine within the first quarter turn, including both ends; linear between entries. */
function quarter(angle: number): number {
  const [index, rest] = [angle >> 4, angle & 15];
  const low = TABLE[index];
  return rest === 0 ? low : low + (((TABLE[index + 1] - low) * rest) >> 4);
}

export function sin(yaw: number): number {
  const within = yaw & (QUARTER - 1);
  switch ((yaw & 0xffff) >> 14) {
    case 0:
      return quarter(within);
    case 1:
      return quarter(QUARTER - within);
    case 2:
      return -quarter(within);
    default:
      return -quarter(QUARTER - within);
  }
}

export function cos(yaw: number): number {
  return sin(yaw + QUARTER);
}
