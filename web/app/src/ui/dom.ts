/** Creates elements in one expression, and other helpers for all pages. */

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

/** Sets a text only if it differs, so that a page that shows figures 60 times a second stays idle. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows or hides an element only if that is a change. */
export function setShown(element: HTMLElement, shown: boolean): void {
  if (element.hidden === shown) element.hidden = !shown;
}

/** Actions of a page that must be undone when another page replaces it. */
export class Cleanup {
  private readonly undo: (() => void)[] = [];
  private isOver = false;

  /** Whether the page is closed: what was awaited meanwhile is not needed any more. */
  get isDone(): boolean {
    return this.isOver;
  }

  /** Registers an undo; runs it at once if the page is closed already. */
  add(undo: () => void): void {
    if (this.isOver) undo();
    else this.undo.push(undo);
  }

  /** Listens until the page is closed. */
  listen<T extends EventTarget>(
    target: T,
    type: string,
    listener: (event: never) => void,
    options?: AddEventListenerOptions,
  ): void {
    target.addEventListener(type, listener as EventListener, options);
    this.add(() => target.removeEventListener(type, listener as EventListener, options));
  }

  /** Calls `tick` at an interval until the page is closed. */
  every(milliseconds: number, tick: () => void): void {
    const timer = setInterval(tick, milliseconds);
    this.add(() => clearInterval(timer));
  }

  run(): void {
    this.isOver = true;
    for (const undo of this.undo.splice(0).reverse()) undo();
  }
}
