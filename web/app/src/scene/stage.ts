/** A Pixi application that fills its host, follows its size and the theme, and stops with the page. */

import "pixi.js/unsafe-eval";
import { Application } from "pixi.js";
import type { Cleanup } from "../ui/dom.js";
import { onTheme, palette, type Palette } from "../ui/theme.js";

export interface Stage {
  app: Application;
  /** Size in CSS pixels. */
  width: () => number;
  height: () => number;
  /** Called at once and after every change of colours. */
  onPalette: (listener: (palette: Palette) => void) => void;
}

/** More than two device pixels per CSS pixel cost time and cannot be seen in motion. */
const MAX_RESOLUTION = 2;

const resolution = (): number => Math.min(devicePixelRatio || 1, MAX_RESOLUTION);

/** Whether rendering has no graphics card. */
function isSoftware(): boolean {
  const context = document.createElement("canvas").getContext("webgl");
  const info = context?.getExtension("WEBGL_debug_renderer_info");
  const name = info ? String(context?.getParameter(info.UNMASKED_RENDERER_WEBGL)) : "";
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software/i.test(name);
}

/** Frames per second for contents that move little: with a graphics card, and without. */
const CALM_FPS = 30;
const SLOW_FPS = 10;

/** `calm` marks contents that move little and may be drawn less often. */
export async function stage(host: HTMLElement, cleanup: Cleanup, calm = false): Promise<Stage | null> {
  const app = new Application();
  const software = isSoftware();
  await app.init({
    preference: "webgl",
    backgroundAlpha: 1,
    background: palette().ground,
    // Multisampling costs a processor more than it is worth.
    antialias: calm || !software,
    autoDensity: true,
    resolution: resolution(),
    width: Math.max(1, host.clientWidth),
    height: Math.max(1, host.clientHeight),
    eventMode: "none",
  });
  if (cleanup.isDone) {
    app.destroy();
    return null;
  }
  host.append(app.canvas);
  if (calm) app.ticker.maxFPS = software ? SLOW_FPS : CALM_FPS;
  const resize = new ResizeObserver(() => {
    // Zooming the page changes the number of device pixels, too.
    app.renderer.resize(Math.max(1, host.clientWidth), Math.max(1, host.clientHeight), resolution());
  });
  resize.observe(host);
  cleanup.add(() => {
    resize.disconnect();
    app.destroy({ removeView: true }, { children: true, texture: true });
  });
  return {
    app,
    width: () => app.screen.width,
    height: () => app.screen.height,
    onPalette: (listener) => {
      const apply = (): void => {
        app.renderer.background.color = palette().ground;
        listener(palette());
      };
      apply();
      cleanup.add(onTheme(apply));
    },
  };
}
