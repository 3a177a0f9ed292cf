/** Elements in one expression, and the few things that every page does with them. */

type Child = Node | string | null | undefined;
type Attributes = Record<string, unknown>;

/** An element with attributes, listeners (`onclick`) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), value as EventListener);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child): child is Node | string => child != null));
  return element;
}

/** Writes text only where it differs: a page that shows figures 60 times a second stays idle. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows or hides, likewise. */
export function setShown(element: HTMLElement, shown: boolean): void {
  if (element.hidden === shown) element.hidden = !shown;
}

/** What a page did that must be undone when another takes its place. */
export class Cleanup {
  private readonly undo: (() => void)[] = [];
  private isOver = false;

  /** Whether the page has gone: what was awaited meanwhile is not wanted any more. */
  get isDone(): boolean {
    return this.isOver;
  }

  /** What was made too late is undone at once. */
  add(undo: () => void): void {
    if (this.isOver) undo();
    else this.undo.push(undo);
  }

  /** Listens until the page goes. */
  listen<T extends EventTarget>(
    target: T,
    type: string,
    listener: (event: never) => void,
    options?: AddEventListenerOptions,
  ): void {
    target.addEventListener(type, listener as EventListener, options);
    this.add(() => target.removeEventListener(type, listener as EventListener, options));
  }

  /** Calls `tick` every so many milliseconds until the page goes. */
  every(milliseconds: number, tick: () => void): void {
    const timer = setInterval(tick, milliseconds);
    this.add(() => clearInterval(timer));
  }

  run(): void {
    this.isOver = true;
    for (const undo of this.undo.splice(0).reverse()) undo();
  }
}
