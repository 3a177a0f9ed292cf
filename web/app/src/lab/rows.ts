/** Files of `foveate lab … --json FILE`: read, checked, and turned into columns. */

export type Cell = string | number | boolean | null;

export interface Rows {
  experiment: string;
  seed: number | null;
  columns: string[];
  rows: Record<string, Cell>[];
  /** Columns that hold numbers in most rows, and those that hold names. */
  numeric: string[];
  names: string[];
}

/** The file is not a result of the laboratory. The message says what was expected. */
export class NotRows extends Error {}

/** Most rows that are shown; a file may have more than a page can show. */
export const MAX_ROWS = 5_000;

export function readRows(text: string): Rows {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (error) {
    throw new NotRows(`this is not JSON: ${(error as Error).message}`);
  }
  const { experiment, seed, rows } = (file ?? {}) as Record<string, unknown>;
  if (typeof experiment !== "string" || !Array.isArray(rows)) {
    throw new NotRows("a file of the laboratory has the keys experiment, seed and rows");
  }
  const flat = rows.slice(0, MAX_ROWS).map(flatten);
  const columns = [...new Set(flat.flatMap((row) => Object.keys(row)))];
  const share = (column: string, is: (cell: Cell | undefined) => boolean): number =>
    flat.filter((row) => is(row[column])).length / Math.max(1, flat.length);
  return {
    experiment,
    seed: typeof seed === "number" ? seed : null,
    columns,
    rows: flat,
    numeric: columns.filter((column) => share(column, (cell) => typeof cell === "number") > 0.3),
    names: columns.filter((column) => share(column, (cell) => typeof cell === "string") > 0.3),
  };
}

/** Turns lists within a row into a column for each index, so that every cell has a single value. */
function flatten(row: unknown): Record<string, Cell> {
  const flat: Record<string, Cell> = {};
  const put = (name: string, value: unknown): void => {
    if (Array.isArray(value)) value.forEach((item, index) => put(`${name}.${index + 1}`, item));
    else if (value !== null && typeof value === "object") {
      for (const [key, inner] of Object.entries(value)) put(`${name}.${key}`, inner);
    } else flat[name] = (value ?? null) as Cell;
  };
  if (row !== null && typeof row === "object") {
    for (const [key, value] of Object.entries(row)) put(key, value);
  }
  return flat;
}

export interface Curve {
  name: string;
  points: [x: number, y: number][];
}

/** Curves of y over x, one for each value of `by`; x rises in each. */
export function curves(rows: Rows, x: string, y: string, by: string): Curve[] {
  const found = new Map<string, [number, number][]>();
  for (const row of rows.rows) {
    const [a, b] = [row[x], row[y]];
    if (typeof a !== "number" || typeof b !== "number") continue;
    const name = by === "" ? y : String(row[by] ?? "–");
    const points = found.get(name) ?? [];
    points.push([a, b]);
    found.set(name, points);
  }
  return [...found].map(([name, points]) => ({ name, points: points.sort((p, q) => p[0] - q[0]) }));
}
