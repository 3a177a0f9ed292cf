/** Numbers as people read them. */

export function bytes(count: number): string {
  if (!Number.isFinite(count)) return "–";
  if (count >= 1e6) return `${trimmed(count / 1e6)} MB`;
  if (count >= 1e3) return `${trimmed(count / 1e3)} kB`;
  return `${Math.round(count)} B`;
}

function trimmed(value: number): string {
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0).replace(/\.0+$/, "");
}

export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value >= 99.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

export function degrees(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return `${value.toFixed(value < 10 ? 2 : 1)}°`;
}

export function milliseconds(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

/** Minutes and seconds. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
