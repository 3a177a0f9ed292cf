/**
 * The few pictures of everything that moves, drawn once in white and tinted, so that any number of sprites is drawn in
 * one batch.
 */

import { Graphics, type Renderer, type Texture } from "pixi.js";

/** Pixels per world unit in the pictures: enough for the nearest zoom. */
export const DETAIL = 32;
/** The same for circles that are many units wide: pixels per radius. */
export const LARGE = 160;

export interface Textures {
  /** A body of radius 1 that looks along +x. */
  avatar: Texture;
  /** The same as an outline: a replica beside the true place. */
  ghost: Texture;
  /** The edge of a circle of radius 1. */
  ring: Texture;
  /** Edge and area of a large circle, with `LARGE` pixels per radius. */
  hoop: Texture;
  disc: Texture;
  /** A unit: a small square on its corner. */
  unit: Texture;
  /** An item. */
  blade: Texture;
  shield: Texture;
  /** A soft circle of radius 1: shadows and flashes. */
  glow: Texture;
}

export function textures(renderer: Renderer): Textures {
  const made = (draw: (g: Graphics) => void, detail = DETAIL): Texture => {
    const graphics = new Graphics();
    // An invisible square keeps every picture's centre at its anchor.
    graphics.rect(-1.45 * detail, -1.45 * detail, 2.9 * detail, 2.9 * detail).fill({ alpha: 0 });
    draw(graphics);
    const texture = renderer.generateTexture({
      target: graphics,
      resolution: 2,
      antialias: true,
      // At a small scale a thin line would fall between pixels.
      textureSourceOptions: { autoGenerateMipmaps: true },
    });
    graphics.destroy();
    return texture;
  };
  const white = 0xffffff;
  const edge = { color: white, width: 0.14 * DETAIL };
  return {
    avatar: made((g) => {
      // The tint colours white; black with an alpha stays a shade of it.
      const barrel = [0.5, -0.24, 0.9, 0.48, 0.12].map((v) => v * DETAIL) as [number, number, number, number, number];
      g.roundRect(...barrel).fill(white);
      g.roundRect(...barrel).fill({ color: 0, alpha: 0.28 });
      g.circle(0, 0, 0.97 * DETAIL).fill(white);
      g.circle(0, 0, 0.52 * DETAIL).fill({ color: 0, alpha: 0.16 });
    }),
    ghost: made((g) => {
      g.circle(0, 0, 0.93 * DETAIL)
        .fill({ color: white, alpha: 0.18 })
        .stroke(edge);
      g.moveTo(0.35 * DETAIL, 0)
        .lineTo(0.93 * DETAIL, 0)
        .stroke(edge);
    }),
    ring: made((g) => g.circle(0, 0, 0.94 * DETAIL).stroke({ ...edge, width: 0.1 * DETAIL })),
    hoop: made((g) => g.circle(0, 0, 0.985 * LARGE).stroke({ color: white, width: 0.03 * LARGE }), LARGE),
    disc: made((g) => g.circle(0, 0, LARGE).fill(white), LARGE),
    unit: made((g) => {
      g.poly([0.75, 0, 0, 0.75, -0.75, 0, 0, -0.75].map((v) => v * DETAIL)).fill(white);
      g.circle(0, 0, 0.22 * DETAIL).fill({ color: 0, alpha: 0.42 });
    }),
    blade: made((g) => {
      const shape = [0.9, 0, 0.15, 0.24, -0.35, 0.24, -0.35, 0.5, -0.5, 0.5, -0.5, 0.14, -0.9, 0.14];
      const mirrored = [...shape];
      for (let i = shape.length - 2; i >= 0; i -= 2) mirrored.push(shape[i]!, -shape[i + 1]!);
      g.poly(mirrored.map((v) => v * DETAIL)).fill(white);
    }),
    shield: made((g) => {
      g.moveTo(0, 0.85 * DETAIL)
        .lineTo(0.65 * DETAIL, 0.5 * DETAIL)
        .quadraticCurveTo(0.62 * DETAIL, -0.45 * DETAIL, 0, -0.9 * DETAIL)
        .quadraticCurveTo(-0.62 * DETAIL, -0.45 * DETAIL, -0.65 * DETAIL, 0.5 * DETAIL)
        .closePath()
        .fill(white);
    }),
    glow: made((g) => {
      for (let ring = 10; ring >= 1; ring -= 1) {
        g.circle(0, 0, (ring / 10) * DETAIL).fill({ color: white, alpha: 0.1 });
      }
    }),
  };
}
