/** The player's current input from keys, mouse and sticks. It does not depend on the world. */

import type { Cleanup } from "../ui/dom.js";
import { HELD, type Held } from "./rules/weapons.js";

export interface Press {
  /** Sends all selected units to the pointer. */
  go: () => void;
  follow: () => void;
  stay: () => void;
  /** Steers a unit instead of the avatar, or the avatar again. */
  embody: () => void;
  drop: () => void;
  /** Watches other players, or stops watching. */
  watch: () => void;
  /** Watches the next player, or the previous one. */
  next: (by: 1 | -1) => void;
  command: () => void;
  help: () => void;
}

const WALK: Record<string, readonly [number, number]> = {
  KeyW: [0, 1],
  ArrowUp: [0, 1],
  KeyS: [0, -1],
  ArrowDown: [0, -1],
  KeyA: [-1, 0],
  ArrowLeft: [-1, 0],
  KeyD: [1, 0],
  ArrowRight: [1, 0],
};

/** A pointer event's `buttons`. */
const LEFT = 1;
const RIGHT = 2;

export class Hand {
  /** The pointer, in pixels from the canvas's corner. */
  readonly pointer = { x: 0, y: 0 };
  /** Direction of the aiming stick in radians; null while the pointer aims. */
  stickAim: number | null = null;
  readonly stick = { along: 0, up: 0 };
  weapon: Held = "blaster";
  zoomed = false;
  /** In command mode the pointer selects and orders, and does not fire. */
  commanding = false;
  stickFires = false;
  private readonly held = new Set<string>();
  private mouseFires = false;

  constructor(
    canvas: HTMLElement,
    private readonly press: Press,
    cleanup: Cleanup,
  ) {
    cleanup.listen(window, "keydown", (event: KeyboardEvent) => this.down(event));
    cleanup.listen(window, "keyup", (event: KeyboardEvent) => this.held.delete(event.code));
    cleanup.listen(window, "blur", () => this.release());
    cleanup.listen(canvas, "contextmenu", (event: Event) => event.preventDefault());
    cleanup.listen(window, "pointermove", (event: PointerEvent) => {
      if (event.pointerType === "touch") return;
      const box = canvas.getBoundingClientRect();
      this.pointer.x = event.clientX - box.left;
      this.pointer.y = event.clientY - box.top;
      this.stickAim = null;
    });
    // With several buttons only the first press is a pointerdown and only the last release a pointerup; the others are
    // moves.
    for (const type of ["pointerdown", "pointermove"]) {
      cleanup.listen(canvas, type, (event: PointerEvent) => this.pressed(event));
    }
    for (const type of ["pointerup", "pointermove"]) {
      cleanup.listen(window, type, (event: PointerEvent) => this.released(event));
    }
    cleanup.listen(
      canvas,
      "wheel",
      (event: WheelEvent) => {
        event.preventDefault();
        this.nextWeapon(event.deltaY > 0 ? 1 : -1);
      },
      { passive: false },
    );
  }

  get fires(): boolean {
    const byHand = !this.commanding && (this.mouseFires || this.stickFires);
    return byHand || this.held.has("Space");
  }

  /** East and north, each −1 to 1. */
  get direction(): [along: number, up: number] {
    let [along, up] = [this.stick.along, this.stick.up];
    for (const code of this.held) {
      const by = WALK[code];
      if (by) [along, up] = [along + by[0], up + by[1]];
    }
    return [Math.max(-1, Math.min(1, along)), Math.max(-1, Math.min(1, up))];
  }

  nextWeapon(by: 1 | -1): void {
    const at = HELD.indexOf(this.weapon) + by + HELD.length;
    this.weapon = HELD[at % HELD.length]!;
  }

  /** Releases everything, so that nothing stays pressed while the page is hidden. */
  release(): void {
    this.held.clear();
    this.mouseFires = false;
    this.stickFires = false;
    this.zoomed = false;
    this.stick.along = 0;
    this.stick.up = 0;
  }

  private pressed({ pointerType, button, buttons }: PointerEvent): void {
    if (pointerType === "touch" || this.commanding) return;
    if (button === 0 && (buttons & LEFT) !== 0) this.mouseFires = true;
    if (button === 2 && (buttons & RIGHT) !== 0) this.zoomed = true;
  }

  private released({ pointerType, button, buttons }: PointerEvent): void {
    if (pointerType === "touch") return;
    if ((buttons & LEFT) === 0) this.mouseFires = false;
    if (button === 2 && (buttons & RIGHT) === 0) this.zoomed = false;
  }

  private down(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const { press } = this;
    const once: Record<string, () => void> = {
      Digit1: () => (this.weapon = HELD[0]),
      Digit2: () => (this.weapon = HELD[1]),
      Digit3: () => (this.weapon = HELD[2]),
      KeyZ: () => (this.zoomed = !this.zoomed),
      KeyC: press.command,
      KeyG: press.go,
      KeyF: press.follow,
      KeyH: press.stay,
      KeyT: press.embody,
      KeyX: press.drop,
      KeyV: press.watch,
      KeyQ: () => press.next(-1),
      KeyE: () => press.next(1),
      Slash: press.help,
    };
    const act = once[event.code];
    if (!act && !WALK[event.code] && event.code !== "Space") return;
    // The space bar presses a focused button; everywhere else it fires.
    if (event.code === "Space" && event.target instanceof HTMLButtonElement) return;
    event.preventDefault();
    this.held.add(event.code);
    if (act && !event.repeat) act();
  }
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
  );
}
