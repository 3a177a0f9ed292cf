/** Units: selecting them and giving them orders. */

import type { Action, Point } from "@foveate/client/arena";
import type { Camera } from "../scene/camera.js";
import type { Cleanup } from "../ui/dom.js";
import type { Hand } from "./hand.js";
import type { ArenaClient, Sight } from "./sight.js";

/** How near to a unit a click must be, in pixels. */
const CLICK_RADIUS = 28;
/** A press that moves less than this is a click, in pixels. */
const CLICK = 6;

export interface CommandOptions {
  client: ArenaClient;
  sight: Sight;
  camera: Camera;
  hand: Hand;
  nodes: readonly Point[];
  /** Called when an order was given for this place. */
  onOrder: (x: number, y: number) => void;
}

export class Command {
  readonly selected = new Set<bigint>();
  /** The box that is being drawn, in pixels. */
  box: { x0: number; y0: number; x1: number; y1: number } | null = null;
  /** The unit that is steered instead of the avatar, from 0. */
  steered: number | null = null;

  constructor(
    canvas: HTMLElement,
    private readonly options: CommandOptions,
    cleanup: Cleanup,
  ) {
    const at = (event: PointerEvent): { x: number; y: number } => {
      const edge = canvas.getBoundingClientRect();
      return { x: event.clientX - edge.left, y: event.clientY - edge.top };
    };
    cleanup.listen(canvas, "pointerdown", (event: PointerEvent) => {
      if (!options.hand.commanding) return;
      const { x, y } = at(event);
      if (event.button === 2) this.order(x, y);
      else if (event.button === 0) this.box = { x0: x, y0: y, x1: x, y1: y };
    });
    cleanup.listen(window, "pointermove", (event: PointerEvent) => {
      if (!this.box) return;
      const { x, y } = at(event);
      [this.box.x1, this.box.y1] = [x, y];
    });
    cleanup.listen(window, "pointerup", (event: PointerEvent) => {
      if (!this.box || event.button !== 0) return;
      const { x0, y0, x1, y1 } = this.box;
      this.box = null;
      const isClick = Math.hypot(x1 - x0, y1 - y0) < CLICK;
      if (!isClick) this.select(x0, y0, x1, y1);
      else if (!this.click(x0, y0) && event.pointerType === "touch") this.order(x0, y0);
    });
  }

  /** The player's own units, including dead ones. */
  private *own(): Generator<{ id: bigint; x: number; y: number; serial: number }> {
    const { client, sight } = this.options;
    for (const seen of sight.units) if (seen.player === client.player) yield seen;
  }

  /** The units that an order is for: the selected ones, or all. */
  private addressed(): bigint[] {
    const all = [...this.own()].map((unit) => unit.id);
    const chosen = all.filter((id) => this.selected.has(id));
    return chosen.length > 0 ? chosen : all;
  }

  tell(action: Action): void {
    for (const id of this.addressed()) this.options.client.ask(id, action);
  }

  /** Sends units to the node nearest to a place on the screen. */
  order(screenX: number, screenY: number): void {
    const { camera, nodes, onOrder, sight } = this.options;
    const target = sight.places.nodeNear(camera.worldX(screenX), camera.worldY(screenY));
    this.tell({ is: "order", target });
    onOrder(...nodes[target]!);
  }

  /** Steers the selected unit, or the first one, instead of the avatar; or the avatar again. */
  embody(): void {
    if (this.steered !== null) {
      this.steered = null;
      return;
    }
    const chosen = this.addressed()[0];
    for (const unit of this.own()) if (unit.id === chosen) this.steered = unit.serial - 1;
  }

  private click(x: number, y: number): boolean {
    const { camera } = this.options;
    this.selected.clear();
    for (const unit of this.own()) {
      const far = Math.hypot(camera.screenX(unit.x) - x, camera.screenY(unit.y) - y);
      if (far < CLICK_RADIUS) this.selected.add(unit.id);
    }
    return this.selected.size > 0;
  }

  private select(x0: number, y0: number, x1: number, y1: number): void {
    const { camera } = this.options;
    this.selected.clear();
    const within = (value: number, a: number, b: number): boolean => value >= Math.min(a, b) && value <= Math.max(a, b);
    for (const unit of this.own()) {
      const [x, y] = [camera.screenX(unit.x), camera.screenY(unit.y)];
      if (within(x, x0, x1) && within(y, y0, y1)) this.selected.add(unit.id);
    }
  }
}
