/** Colours for the age of a replica's state. */

/** Upper ends of the classes, in milliseconds; the last class is open. */
export const STALENESS = [60, 120, 250, 500, 1_000] as const;

/** From fresh to old; the same on light and dark backgrounds, and distinguishable by lightness alone. */
export const SHADES = [0x2fa577, 0x7fb03f, 0xd9a92b, 0xe17c33, 0xcf4a45, 0x8d3a74] as const;

export function shadeOf(staleMs: number): number {
  const at = STALENESS.findIndex((end) => staleMs <= end);
  return at < 0 ? SHADES.length - 1 : at;
}

export function shadeName(at: number): string {
  const end = STALENESS[at];
  return end === undefined ? `older` : `≤ ${end < 1_000 ? `${end} ms` : `${end / 1_000} s`}`;
}

export const css = (shade: number): string => `#${shade.toString(16).padStart(6, "0")}`;
