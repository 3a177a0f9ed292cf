/** The bar on top: three pages and the theme. */

import { h } from "./dom.js";
import { onTheme, theme, toggleTheme } from "./theme.js";

export interface Entry {
  path: string;
  title: string;
}

export function bar(entries: readonly Entry[], go: (path: string) => void): (path: string) => void {
  const links = entries.map((entry) =>
    h(
      "a",
      {
        href: entry.path,
        "data-testid": `nav-${entry.title.toLowerCase()}`,
        onclick: (event: MouseEvent) => {
          // With a modifier key the browser opens a tab, as everywhere.
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          go(entry.path);
        },
      },
      entry.title,
    ),
  );
  const themeButton = h("button", { class: "quiet", "data-testid": "theme", onclick: toggleTheme });
  const label = (): void => {
    const other = theme() === "dark" ? "light" : "dark";
    themeButton.textContent = other === "light" ? "☀" : "☾";
    themeButton.setAttribute("aria-label", `Switch to ${other} colours`);
    themeButton.title = `Switch to ${other} colours`;
  };
  label();
  onTheme(label);
  const mark = h("span", { class: "mark", "aria-hidden": "true" });
  document
    .getElementById("bar")!
    .append(
      h("a", { class: "brand", href: "/" }, mark, "Foveate"),
      h("nav", { "aria-label": "Pages" }, ...links),
      h("span", { class: "grow" }),
      themeButton,
    );
  return (path) => {
    links.forEach((link, index) => {
      if (entries[index]!.path === path) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
  };
}
