/** Play: the map behind a form for the name, then the game. */

import "../style/play.css";
import { Container } from "pixi.js";
import { connect, ConnectError, RefusedError } from "@foveate/client";
import { type ArenaGame, arenaGame, parseArena } from "@foveate/client/arena";
import { ArenaFields } from "../scene/arena.js";
import { mapShape } from "../scene/document.js";
import { Ground } from "../scene/ground.js";
import { stage } from "../scene/stage.js";
import { Cleanup, h } from "../ui/dom.js";
import { type Facts, watchable } from "./debug.js";
import { Game } from "./game.js";
import { refusalText } from "./hud/overlay.js";
import { JoinScreen } from "./join.js";
import { Picture } from "./picture.js";
import { UnitPlaces } from "./rules/units.js";
import type { ArenaClient } from "./sight.js";

/** Time between two attempts to reach the server, in milliseconds. */
const RETRY = 2_000;

export async function mount(page: HTMLElement, cleanup: Cleanup): Promise<void> {
  const notice = h("p", { class: "notice", role: "status" }, "Loading the arena …");
  page.append(notice);
  const facts: Facts = { client: null, game: null };
  window.foveate = watchable(facts);
  cleanup.add(() => delete window.foveate);
  const world = await loaded(notice, cleanup);
  if (!world || cleanup.isDone) return;
  notice.remove();

  const canvasHost = h("div", { class: "canvas", "data-testid": "play-canvas" });
  page.append(canvasHost);
  const on = await stage(canvasHost, cleanup);
  if (!on) return;
  const { app } = on;
  const shape = mapShape(world.game.map);
  const layer = new Container();
  const ground = new Ground(shape);
  layer.addChild(ground.layer);
  app.stage.addChild(layer);
  on.onPalette((colours) => ground.draw(colours));
  const picture = new Picture(on, layer, shape);
  picture.camera.scale = 12;
  app.ticker.add(() => {
    const now = performance.now();
    if (facts.game) {
      facts.game.frame(now);
      facts.game.frames.add(now, performance.now());
      return;
    }
    // Before the game the camera moves slowly over the map.
    picture.camera.x = shape.side * (0.5 + 0.22 * Math.cos(now / 23_000));
    picture.camera.y = shape.side * (0.5 + 0.22 * Math.sin(now / 17_000));
    picture.camera.place(layer);
  });

  const join = new JoinScreen((name, invitation) => void play(name, invitation));
  page.append(join.element);
  join.show("");

  async function play(name: string, invitation: string): Promise<void> {
    try {
      const token = new TextEncoder().encode(invitation);
      const client = await connect({ base: location.href, name, token, game: world!.game });
      if (cleanup.isDone) return client.leave();
      begin(client);
    } catch (error) {
      if (error instanceof RefusedError && error.refusal.why.startsWith("token")) join.askInvitation();
      join.show(problem(error));
    }
  }

  function begin(client: ArenaClient): void {
    facts.client = client;
    join.element.hidden = true;
    const { fields, places, game } = world!;
    const { rule, map } = game;
    const { canvas } = app;
    const session = new Cleanup();
    facts.game = new Game(
      { client, fields, places, picture, host: page, canvas, rule, nodes: map.nodes, hz: map.rate },
      session,
    );
    page.focus();
    session.listen(window, "pagehide", () => client.leave());
    cleanup.add(() => {
      session.run();
      client.leave();
    });
    client.on("state", (state) => {
      if (state === "playing") void reloadIfChanged(world!.text);
      if (state !== "refused" && state !== "closed") return;
      session.run();
      facts.game = null;
      if (!cleanup.isDone) join.show(refusalText(client.refusal));
    });
  }
}

interface Loaded {
  text: string;
  fields: ArenaFields;
  game: ArenaGame;
  places: UnitPlaces;
}

/** The server's map and schema; waits for a server that does not answer. */
async function loaded(notice: HTMLElement, cleanup: Cleanup): Promise<Loaded | null> {
  while (!cleanup.isDone) {
    try {
      const [text, schemaText] = await Promise.all([fetched("/arena.json"), fetched("/schema.txt")]);
      return understood(text, schemaText);
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      notice.textContent = `${error.message} Trying again …`;
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  }
  return null;
}

function understood(text: string, schemaText: string): Loaded {
  const game = arenaGame(schemaText, parseArena(JSON.parse(text)));
  const fields = new ArenaFields(game.schema);
  return { text, fields, game, places: new UnitPlaces(fields, game.ways) };
}

class Away extends Error {}

async function fetched(path: string): Promise<string> {
  let answer: Response;
  try {
    answer = await fetch(path, { cache: "no-cache" });
  } catch {
    throw new Away("The server does not answer.");
  }
  if (!answer.ok) throw new Away(`The server has no ${path} (${answer.status}).`);
  return answer.text();
}

/** A server that came back may have another map, for which the page must be reloaded. */
async function reloadIfChanged(text: string): Promise<void> {
  try {
    if ((await fetched("/arena.json")) !== text) location.reload();
  } catch (error) {
    // The server is gone again; the client is already reconnecting.
    if (!(error instanceof Away)) throw error;
  }
}

function problem(error: unknown): string {
  if (error instanceof RefusedError) return refusalText(error.refusal);
  if (error instanceof ConnectError) return `The server cannot be reached: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
