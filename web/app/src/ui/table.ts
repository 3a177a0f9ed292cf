/** A table that sorts by any column, refreshed in place. */

import { h, setText } from "./dom.js";

export interface Column<T> {
  title: string;
  about?: string;
  text: (row: T) => string;
  /** The value to sort by. */
  key: (row: T) => number | string;
}

export interface SortedTable<T> {
  element: HTMLElement;
  show: (rows: readonly T[]) => void;
}

export interface TableOptions<T> {
  columns: readonly Column<T>[];
  testid: string;
  /** The initial column and direction. */
  sorted?: { column: number; descending: boolean };
  onClick?: (row: T) => void;
  isPicked?: (row: T) => boolean;
  /** The identity of a row: while the pointer is over the table, rows stay in place. */
  id: (row: T) => unknown;
  /** Rows beyond this are counted, not shown. */
  limit: number;
}

export function sortedTable<T>(options: TableOptions<T>): SortedTable<T> {
  const { columns, limit } = options;
  let { column, descending } = options.sorted ?? { column: 0, descending: false };
  let rows: readonly T[] = [];
  let kept = new Map<unknown, number>();
  const body = h("tbody");
  const rest = h("p", { class: "soft rest", hidden: true });
  const heads = columns.map((entry, index) =>
    h(
      "th",
      { scope: "col", title: entry.about },
      h("button", { type: "button", onclick: () => sortBy(index) }, entry.title),
    ),
  );
  const table = h("table", { "data-testid": options.testid }, h("thead", {}, h("tr", {}, ...heads)), body);

  function sortBy(index: number): void {
    descending = index === column ? !descending : typeof sample(index) === "number";
    column = index;
    draw();
  }

  const sample = (index: number): unknown => rows[0] && columns[index]!.key(rows[0]);

  function draw(): void {
    heads.forEach((head, index) => {
      const order = descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", index === column ? order : "none");
    });
    const sorted = inOrder();
    const shown = sorted.slice(0, limit);
    while (body.rows.length > shown.length) body.deleteRow(-1);
    shown.forEach((row, index) => fill(body.rows[index] ?? newRow(), row));
    rest.hidden = sorted.length <= limit;
    setText(rest, `and ${sorted.length - limit} more`);
  }

  function inOrder(): T[] {
    const { key } = columns[column]!;
    const sorted = [...rows].sort((a, b) => compare(key(a), key(b)) * (descending ? -1 : 1));
    if (!body.matches(":hover")) {
      kept = new Map(sorted.map((row, index) => [options.id(row), index]));
      return sorted;
    }
    const at = (row: T): number => kept.get(options.id(row)) ?? sorted.length;
    return sorted.sort((a, b) => at(a) - at(b));
  }

  function newRow(): HTMLTableRowElement {
    const line = body.insertRow();
    for (const _ of columns) line.insertCell();
    if (options.onClick) line.tabIndex = 0;
    return line;
  }

  function fill(line: HTMLTableRowElement, row: T): void {
    columns.forEach((entry, index) => setText(line.cells[index]!, entry.text(row)));
    line.classList.toggle("picked", options.isPicked?.(row) ?? false);
    const click = options.onClick;
    if (!click) return;
    line.onclick = () => click(row);
    line.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      click(row);
    };
  }

  return {
    element: h("div", { class: "table" }, table, rest),
    show: (next) => {
      rows = next;
      draw();
    },
  };
}

function compare(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
