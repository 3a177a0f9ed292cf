/** Two sticks and a few buttons for touch screens. */

import { type Cleanup, h } from "../ui/dom.js";
import type { Hand } from "./hand.js";

/** How far a stick goes, in pixels. */
const TRAVEL = 46;
/** How far an aiming stick must be pushed to fire. */
const FIRES_FROM = 0.85;

export function touch(host: HTMLElement, hand: Hand, cleanup: Cleanup): void {
  const walk = stick("Walk", (along, up) => {
    hand.stick.along = along;
    hand.stick.up = up;
  });
  const aim = stick("Aim; push to the edge to fire", (along, up) => {
    const pushed = Math.hypot(along, up);
    // The last aim stays when the finger is lifted.
    if (pushed > 0.15) hand.stickAim = Math.atan2(up, along);
    hand.stickFires = pushed > FIRES_FROM;
  });
  const fire = hold("Fire", "fire", (pressed) => (hand.stickFires = pressed));
  const zoom = tap("Zoom", () => (hand.zoomed = !hand.zoomed));
  const weapon = tap("Weapon", () => hand.nextWeapon(1));
  const pads = h(
    "div",
    { class: "touch", "data-testid": "touch" },
    walk,
    h("div", { class: "touch-buttons" }, weapon, zoom, fire),
    aim,
  );
  host.append(pads);
  cleanup.add(() => pads.remove());
  pads.hidden = !matchMedia("(pointer: coarse)").matches;
  // On a laptop with a touch screen, the sticks appear with the first touch.
  cleanup.listen(host, "pointerdown", (event: PointerEvent) => {
    if (event.pointerType === "touch") pads.hidden = false;
  });
}

function stick(label: string, tell: (along: number, up: number) => void): HTMLElement {
  const knob = h("i");
  const pad = h("div", { class: "stick", role: "application", "aria-label": label }, knob);
  let finger: number | null = null;
  const move = (event: PointerEvent): void => {
    const box = pad.getBoundingClientRect();
    const dx = event.clientX - box.left - box.width / 2;
    const dy = event.clientY - box.top - box.height / 2;
    const share = Math.min(1, Math.hypot(dx, dy) / TRAVEL);
    const angle = Math.atan2(dy, dx);
    const [x, y] = [Math.cos(angle) * share, Math.sin(angle) * share];
    knob.style.transform = `translate(${x * TRAVEL}px, ${y * TRAVEL}px)`;
    tell(x, -y);
  };
  pad.addEventListener("pointerdown", (event) => {
    finger = event.pointerId;
    pad.setPointerCapture(finger);
    move(event);
  });
  pad.addEventListener("pointermove", (event) => {
    if (event.pointerId === finger) move(event);
  });
  const end = (event: PointerEvent): void => {
    if (event.pointerId !== finger) return;
    finger = null;
    knob.style.transform = "";
    tell(0, 0);
  };
  pad.addEventListener("pointerup", end);
  pad.addEventListener("pointercancel", end);
  return pad;
}

function hold(text: string, name: string, tell: (pressed: boolean) => void): HTMLElement {
  const button = h("button", { type: "button", class: name }, text);
  button.addEventListener("pointerdown", (event) => {
    button.setPointerCapture(event.pointerId);
    tell(true);
  });
  for (const type of ["pointerup", "pointercancel"]) button.addEventListener(type, () => tell(false));
  return button;
}

function tap(text: string, act: () => void): HTMLElement {
  return h("button", { type: "button", onclick: act }, text);
}
