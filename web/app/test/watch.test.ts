import assert from "node:assert/strict";
import test from "node:test";
import type { ArenaClient, Sight } from "../src/play/sight.js";
import { Watch } from "../src/play/watch.js";

test("who stops watching while there is no link has stopped after it", () => {
  /** What the server knows: its session goes on over the new link. */
  let watched: bigint | null = null;
  let linked = true;
  const client = { avatar: 1n, watch: (id: bigint | null) => linked && (watched = id) };
  const sight = { avatars: [{ id: 2n, player: 2, health: 100 }], me: { health: 100 } };
  const watch = new Watch(client as unknown as ArenaClient, sight as unknown as Sight);
  watch.toggle();
  assert.equal(watched, 2n);
  linked = false;
  watch.toggle();
  linked = true;
  watch.again();
  assert.deepEqual([watch.whom, watched], [null, null]);
});
