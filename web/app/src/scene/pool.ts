/** Sprites by key: kept while they are used, and reused afterwards. Frames allocate nothing. */

import { type Container, Sprite, type Texture } from "pixi.js";
import { DETAIL, LARGE } from "./textures.js";

export class SpritePool<K> {
  private readonly shown = new Map<K, Sprite>();
  private readonly spare: Sprite[] = [];
  private readonly wanted = new Set<K>();

  constructor(private readonly layer: Container) {}

  get size(): number {
    return this.shown.size;
  }

  begin(): void {
    this.wanted.clear();
  }

  /** The sprite for a key in this frame, with a radius in world units. */
  take(key: K, texture: Texture, radius: number): Sprite {
    this.wanted.add(key);
    let sprite = this.shown.get(key);
    if (!sprite) {
      sprite = this.spare.pop();
      if (!sprite) {
        sprite = new Sprite({ texture, anchor: 0.5 });
        this.layer.addChild(sprite);
      }
      sprite.visible = true;
      sprite.alpha = 1;
      sprite.rotation = 0;
      this.shown.set(key, sprite);
    }
    if (sprite.texture !== texture) sprite.texture = texture;
    sprite.scale.set(radius / DETAIL);
    return sprite;
  }

  /** The same with one of the large pictures. */
  takeLarge(key: K, texture: Texture, radius: number): Sprite {
    const sprite = this.take(key, texture, radius);
    sprite.scale.set(radius / LARGE);
    return sprite;
  }

  /** Hides sprites that this frame did not use. */
  end(): void {
    for (const [key, sprite] of this.shown) {
      if (this.wanted.has(key)) continue;
      sprite.visible = false;
      this.shown.delete(key);
      this.spare.push(sprite);
    }
  }
}
