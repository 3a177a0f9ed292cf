import assert from "node:assert/strict";
import test from "node:test";
import { Hand, type Press } from "../src/play/hand.js";
import { Cleanup } from "../src/ui/dom.js";

const nothing = (): void => {};
const PRESS: Press = {
  go: nothing,
  follow: nothing,
  stay: nothing,
  embody: nothing,
  drop: nothing,
  watch: nothing,
  next: nothing,
  command: nothing,
  help: nothing,
};

/** A hand, and what a mouse says to it: as browsers do, to the canvas first and then to the window. */
function hand(): { hand: Hand; mouse: (type: string, button: number, buttons: number) => void } {
  const page = new EventTarget();
  const canvas = Object.assign(new EventTarget(), { getBoundingClientRect: () => ({ left: 0, top: 0 }) });
  Object.assign(globalThis, { window: page });
  const made = new Hand(canvas as unknown as HTMLElement, PRESS, new Cleanup());
  const mouse = (type: string, button: number, buttons: number): void => {
    const facts = { pointerType: "mouse", button, buttons, clientX: 0, clientY: 0 };
    for (const target of [canvas, page]) target.dispatchEvent(Object.assign(new Event(type), facts));
  };
  return { hand: made, mouse };
}

test("zooming with the right button, the left one fires", () => {
  const { hand: it, mouse } = hand();
  mouse("pointerdown", 2, 2);
  assert.ok(it.zoomed && !it.fires);
  mouse("pointermove", 0, 3);
  assert.ok(it.zoomed && it.fires);
  mouse("pointermove", 0, 2);
  assert.ok(it.zoomed && !it.fires);
  mouse("pointerup", 2, 0);
  assert.ok(!it.zoomed && !it.fires);
});

test("no button stays pressed, whichever is let go of first", () => {
  const { hand: it, mouse } = hand();
  mouse("pointerdown", 0, 1);
  mouse("pointermove", -1, 1);
  assert.ok(it.fires);
  mouse("pointermove", 2, 3);
  mouse("pointermove", 0, 2);
  mouse("pointerup", 2, 0);
  assert.ok(!it.zoomed && !it.fires);
});

test("a zoom by key stays while the mouse moves", () => {
  const { hand: it, mouse } = hand();
  it.zoomed = true;
  mouse("pointermove", -1, 0);
  mouse("pointerdown", 0, 1);
  mouse("pointerup", 0, 0);
  assert.ok(it.zoomed && !it.fires);
});
