/**
 * The arena in the browser: its map, its movement to the last bit, its shapes; and the adapter with which `connect`
 * plays it. It is separate from the client: other games have a module like this one.
 */
import type { GameAdapter } from "../client/types.js";
import { Writer } from "../session/postcard.js";
import { Schema } from "../wire/schema.js";
import { AvatarRule } from "./avatar.js";
import { CollisionMap } from "./collision.js";
import { ArenaError } from "./map.js";
import type { ArenaDocument } from "./map.js";
import { AVATAR, readEvent, writeAction, writeControls } from "./shapes.js";
import type { Action, Controls, Event } from "./shapes.js";
import { Ways } from "./ways.js";

export { AvatarRule } from "./avatar.js";
export { CollisionMap, RADIUS } from "./collision.js";
export { ArenaError, SUBUNITS, parseArena } from "./map.js";
export type { ArenaDocument, Point } from "./map.js";
export { FULL_INPUT, step } from "./movement.js";
export type { Body, Walk } from "./movement.js";
export * from "./shapes.js";
export { cos, sin } from "./trig.js";
export { Ways } from "./ways.js";

/** The arena as a game for `connect`, with what is needed to draw it. */
export interface ArenaGame extends GameAdapter<Controls, Action, Event> {
  readonly schema: Schema;
  readonly map: ArenaDocument;
  readonly collision: CollisionMap;
  readonly ways: Ways;
  readonly rule: AvatarRule;
}

/** A server's arena, from its `/schema.txt` and its `/arena.json` (see `parseArena`). */
export function arenaGame(schemaText: string, map: ArenaDocument): ArenaGame {
  const schema = Schema.parse(schemaText);
  const kind = schema.kinds[AVATAR];
  if (kind?.name !== "avatar") throw new ArenaError("there are no avatars: this server plays another game");
  const collision = new CollisionMap(map);
  const rule = new AvatarRule(kind, collision, map.rate);
  const writer = new Writer();
  return {
    schema,
    map,
    collision,
    ways: new Ways(map),
    rule,
    encodeInput(input) {
      writer.clear();
      writeControls(input, writer);
      return writer.finish();
    },
    encodeAction: writeAction,
    decodeEvent: readEvent,
    predict: (state, input, tick) => rule.step(state, input, tick),
  };
}
