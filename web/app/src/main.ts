/** Three pages behind one bar. Each is loaded when it is opened, and cleans up when it is closed. */

import "./style/base.css";
import { bar } from "./ui/bar.js";
import { Cleanup, h } from "./ui/dom.js";
import { applyTheme } from "./ui/theme.js";

type Mount = (page: HTMLElement, cleanup: Cleanup) => void | Promise<void>;

const PAGES: readonly { path: string; title: string; load: () => Promise<Mount> }[] = [
  { path: "/", title: "Play", load: async () => (await import("./play/page.js")).mount },
  {
    path: "/observatory",
    title: "Observatory",
    load: async () => (await import("./observatory/page.js")).mount,
  },
  { path: "/lab", title: "Lab", load: async () => (await import("./lab/page.js")).mount },
];

applyTheme();
const page = document.getElementById("page")!;
const mark = bar(PAGES, (path) => {
  if (path === location.pathname) return;
  history.pushState(null, "", path);
  void open();
});
let shown = new Cleanup();

async function open(): Promise<void> {
  const path = location.pathname.replace(/(.)\/+$/, "$1");
  const entry = PAGES.find((known) => known.path === path) ?? PAGES[0]!;
  shown.run();
  const cleanup = new Cleanup();
  shown = cleanup;
  page.replaceChildren();
  page.className = entry.title.toLowerCase();
  document.title = entry.path === "/" ? "Foveate" : `${entry.title} · Foveate`;
  mark(entry.path);
  try {
    const mount = await entry.load();
    // The user may have opened another page while this one was loading.
    if (shown === cleanup) await mount(page, cleanup);
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    page.append(h("p", { class: "notice bad", role: "alert" }, `This page failed: ${text}`));
    throw error;
  }
}

window.addEventListener("popstate", () => void open());
void open();
