/** Light and dark: the system's setting until the user chooses; with the same colours for the canvas. */

const KEPT = "foveate.theme";
const listeners = new Set<() => void>();
const system = matchMedia("(prefers-color-scheme: dark)");

export type Theme = "light" | "dark";

export function theme(): Theme {
  const chosen = localStorage.getItem(KEPT);
  if (chosen === "light" || chosen === "dark") return chosen;
  return system.matches ? "dark" : "light";
}

export function toggleTheme(): void {
  localStorage.setItem(KEPT, theme() === "dark" ? "light" : "dark");
  applyTheme();
}

/** Updates the style sheet, and then all listeners. */
export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
  for (const listener of listeners) listener();
}

/** Calls `listener` at each change; the result stops it. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

system.addEventListener("change", applyTheme);

/** A colour of the style sheet as a number for Pixi. */
export function colour(name: string): number {
  const text = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const hex = /^#([0-9a-f]{6})$/i.exec(text);
  if (!hex) throw new Error(`--${name} is "${text}"; the canvas takes colours as #rrggbb`);
  return Number.parseInt(hex[1]!, 16);
}

/** The colours of both canvases. */
export interface Palette {
  ground: number;
  grid: number;
  wall: number;
  wallEdge: number;
  wallShade: number;
  ink: number;
  soft: number;
  teams: readonly [number, number, number];
  accent: number;
  good: number;
  warn: number;
  bad: number;
}

export function palette(): Palette {
  return {
    ground: colour("ground"),
    grid: colour("grid"),
    wall: colour("wall"),
    wallEdge: colour("wall-edge"),
    wallShade: colour("wall-shade"),
    ink: colour("ink"),
    soft: colour("soft"),
    teams: [colour("no-team"), colour("team-1"), colour("team-2")],
    accent: colour("accent"),
    good: colour("good"),
    warn: colour("warn"),
    bad: colour("bad"),
  };
}
