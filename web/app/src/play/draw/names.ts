/** Names above avatars: text of constant size at any zoom. */

import { BitmapText, Container } from "pixi.js";
import type { Camera } from "../../scene/camera.js";
import type { Palette } from "../../ui/theme.js";
import type { Seen } from "../sight.js";

/** Most names at a time: those nearest to the middle are shown. */
const MAX_NAMES = 48;
/** Pixels between an avatar's edge and its name. */
const GAP = 9;

export class Names {
  readonly layer = new Container();
  private readonly labels: BitmapText[] = [];

  draw(
    avatars: readonly Seen[],
    nameOf: (player: number) => string,
    camera: Camera,
    size: { width: number; height: number },
    colours: Palette,
  ): void {
    let used = 0;
    for (const seen of avatars) {
      if (seen.health === 0 || used >= MAX_NAMES) continue;
      const [x, y] = [camera.screenX(seen.x), camera.screenY(seen.y)];
      if (x < -40 || y < -20 || x > size.width + 40 || y > size.height + 40) continue;
      const name = nameOf(seen.player);
      if (name === "") continue;
      const label = this.labels[used] ?? this.more();
      used += 1;
      if (label.text !== name) label.text = name;
      label.tint = colours.ink;
      label.alpha = seen.frozen ? 0.35 : 0.78;
      // Whole pixels: text at fractions of a pixel is blurred.
      label.position.set(Math.round(x), Math.round(y - camera.scale * 1.75 - GAP));
      label.visible = true;
    }
    for (let i = used; i < this.labels.length; i += 1) this.labels[i]!.visible = false;
  }

  private more(): BitmapText {
    const label = new BitmapText({
      text: "",
      style: { fontFamily: "system-ui, sans-serif", fontSize: 12, fontWeight: "500", fill: 0xffffff },
      anchor: 0.5,
    });
    this.labels.push(label);
    this.layer.addChild(label);
    return label;
  }
}
