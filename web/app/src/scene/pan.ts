/** Moves a camera by drag, wheel, two fingers and arrow keys; distinguishes clicks from drags. */

import type { Cleanup } from "../ui/dom.js";
import type { Camera } from "./camera.js";

export interface PanOptions {
  camera: Camera;
  /** Smallest and largest scale. */
  limits: () => [number, number];
  onClick: (screenX: number, screenY: number) => void;
  /** Called when the user moves the camera. */
  onMove: () => void;
}

/** A press that moves less than this is a click, in pixels. */
const CLICK = 5;
/** Distance that an arrow key moves, in pixels. */
const STEP = 60;

export function pan(canvas: HTMLElement, options: PanOptions, cleanup: Cleanup): void {
  const { camera } = options;
  const fingers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  let spread = 0;

  const at = (event: PointerEvent | WheelEvent): { x: number; y: number } => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const zoom = (x: number, y: number, factor: number): void => {
    camera.zoomAt(x, y, factor, options.limits());
    options.onMove();
  };
  const shift = (dx: number, dy: number): void => {
    camera.x -= dx / camera.scale;
    camera.y += dy / camera.scale;
    options.onMove();
  };

  canvas.style.touchAction = "none";
  canvas.tabIndex = 0;
  cleanup.listen(canvas, "pointerdown", (event: PointerEvent) => {
    fingers.set(event.pointerId, at(event));
    canvas.setPointerCapture(event.pointerId);
    if (fingers.size === 1) moved = 0;
    spread = distance(fingers);
  });
  cleanup.listen(canvas, "pointermove", (event: PointerEvent) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    fingers.set(event.pointerId, now);
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (moved < CLICK) return;
    shift((now.x - before.x) / fingers.size, (now.y - before.y) / fingers.size);
    const wide = distance(fingers);
    if (wide > 0 && spread > 0) zoom(now.x, now.y, wide / spread);
    spread = wide;
  });
  const release = (event: PointerEvent): void => {
    const was = fingers.delete(event.pointerId);
    if (was && event.type === "pointerup" && moved < CLICK) {
      const { x, y } = at(event);
      options.onClick(x, y);
    }
  };
  cleanup.listen(canvas, "pointerup", release);
  cleanup.listen(canvas, "pointercancel", release);
  cleanup.listen(
    canvas,
    "wheel",
    (event: WheelEvent) => {
      event.preventDefault();
      const { x, y } = at(event);
      zoom(x, y, Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0016)));
    },
    { passive: false },
  );
  cleanup.listen(canvas, "keydown", (event: KeyboardEvent) => {
    const middle: [number, number] = [canvas.clientWidth / 2, canvas.clientHeight / 2];
    const keys: Record<string, () => void> = {
      ArrowLeft: () => shift(STEP, 0),
      ArrowRight: () => shift(-STEP, 0),
      ArrowUp: () => shift(0, STEP),
      ArrowDown: () => shift(0, -STEP),
      "+": () => zoom(...middle, 1.25),
      "=": () => zoom(...middle, 1.25),
      "-": () => zoom(...middle, 0.8),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function distance(fingers: Map<number, { x: number; y: number }>): number {
  if (fingers.size !== 2) return 0;
  const [a, b] = [...fingers.values()];
  return Math.hypot(a!.x - b!.x, a!.y - b!.y);
}
