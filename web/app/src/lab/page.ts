/** The laboratory's reports: those on the server, and files from the user's disk. */

import "../style/lab.css";
import { Cleanup, h } from "../ui/dom.js";
import { sortedTable } from "../ui/table.js";
import { quickChart } from "./quick.js";
import { type Cell, MAX_ROWS, NotRows, readRows, type Rows } from "./rows.js";

interface Report {
  experiment: string;
  title: string;
  path: string;
  /** Seconds since 1970. */
  made: number;
}

export async function mount(page: HTMLElement, cleanup: Cleanup): Promise<void> {
  const list = h("ul", { class: "reports", "data-testid": "reports" });
  const view = h("section", { class: "view", "aria-live": "polite" });
  const file = h("input", {
    type: "file",
    accept: ".json,application/json",
    class: "unseen",
    id: "lab-file",
    "data-testid": "lab-file",
    onchange: () => void open(file.files?.[0]),
  });
  const side = h(
    "aside",
    {},
    h("h2", {}, "Reports"),
    list,
    h(
      "label",
      { class: "drop", for: "lab-file" },
      h("b", {}, "Open rows"),
      h("span", { class: "soft" }, "a file of ", h("code", {}, "--json"), ": drop it anywhere, or choose it"),
    ),
    file,
  );
  page.append(h("div", { class: "layout" }, side, view));

  let shown = new Cleanup();
  cleanup.add(() => shown.run());
  /** Number of choices so far: what an earlier choice was waiting for is dropped. */
  let choices = 0;
  const choose = (): number => {
    shown.run();
    shown = new Cleanup();
    return ++choices;
  };
  const show = (...content: HTMLElement[]): void => view.replaceChildren(...content);

  async function open(chosen: File | undefined): Promise<void> {
    if (!chosen) return;
    const choice = choose();
    mark(list, null);
    const text = await chosen.text();
    if (choice !== choices || cleanup.isDone) return;
    try {
      showRows(readRows(text), chosen.name);
    } catch (error) {
      if (!(error instanceof NotRows)) throw error;
      show(h("p", { class: "notice bad", role: "alert" }, `${chosen.name}: ${error.message}`));
    }
  }

  function openReport(...content: HTMLElement[]): void {
    choose();
    show(...content);
  }

  function showRows(rows: Rows, name: string): void {
    const more = rows.rows.length === MAX_ROWS ? `, the first ${MAX_ROWS}` : "";
    const seed = rows.seed === null ? "" : ` · seed ${rows.seed}`;
    show(
      h("h1", {}, rows.experiment),
      h("p", { class: "soft" }, `${name}${seed} · ${rows.rows.length} rows${more}`),
      rows.numeric.length > 0 ? quickChart(rows, shown) : h("span"),
      rowTable(rows),
    );
  }

  cleanup.listen(page, "dragover", (event: DragEvent) => event.preventDefault());
  cleanup.listen(page, "drop", (event: DragEvent) => {
    event.preventDefault();
    void open(event.dataTransfer?.files[0]);
  });

  const reports = await index();
  if (cleanup.isDone) return;
  list.append(...reports.map((report) => entry(report, list, openReport)));
  // A file that was chosen meanwhile stays.
  if (choices === 0) {
    if (reports.length > 0) (list.querySelector("button") as HTMLButtonElement).click();
    else show(empty());
  }
  window.foveate = { page: "lab", reports: reports.length };
  cleanup.add(() => delete window.foveate);
}

/** The reports on the server; empty if it has no folder of reports. */
async function index(): Promise<Report[]> {
  try {
    const answer = await fetch("/reports/index.json", { cache: "no-cache" });
    const isJson = answer.headers.get("content-type")?.includes("json") ?? false;
    return answer.ok && isJson ? ((await answer.json()) as Report[]) : [];
  } catch {
    return [];
  }
}

function entry(report: Report, list: HTMLElement, show: (...content: HTMLElement[]) => void): HTMLElement {
  // A path from the index stays below /reports/, whatever it says.
  const url = `/reports/${report.path.split("/").map(encodeURIComponent).join("/")}`;
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        mark(list, button);
        show(h("iframe", { src: url, title: report.title, sandbox: "", "data-testid": "report" }));
      },
    },
    h("b", {}, report.experiment),
    h("span", {}, report.title),
    h("time", { class: "soft" }, new Date(report.made * 1_000).toLocaleString()),
  );
  return h("li", {}, button);
}

function mark(list: HTMLElement, chosen: HTMLElement | null): void {
  for (const button of list.querySelectorAll("button")) {
    if (button === chosen) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

function empty(): HTMLElement {
  return h(
    "div",
    { class: "empty", "data-testid": "lab-empty" },
    h("h1", {}, "No reports yet"),
    h(
      "p",
      {},
      "The laboratory runs the engine in virtual time and says what it costs and how wrong replicas are. An experiment with a report:",
    ),
    h("pre", {}, "foveate lab a3 --quick --report reports"),
    h("p", {}, "Then serve the folder, and its pages are listed here:"),
    h("pre", {}, "foveate serve --web 127.0.0.1:8080 --reports reports"),
    h("p", { class: "soft" }, "Or drop a file of --json onto this page to see its rows."),
  );
}

function rowTable(rows: Rows): HTMLElement {
  const table = sortedTable<Record<string, Cell>>({
    testid: "rows",
    id: (row) => row,
    limit: MAX_ROWS,
    sorted: { column: 0, descending: false },
    columns: rows.columns.map((column) => ({
      title: column,
      text: (row) => cellText(row[column]),
      key: (row) => cellKey(row[column]),
    })),
  });
  table.show(rows.rows);
  return table.element;
}

const cellText = (cell: Cell | undefined): string =>
  typeof cell === "number" ? String(Number(cell.toPrecision(6))) : String(cell ?? "");

const cellKey = (cell: Cell | undefined): number | string => (typeof cell === "number" ? cell : String(cell ?? ""));
