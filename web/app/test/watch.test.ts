import assert from "node:assert/strict";
import test from "node:test";
import type { ArenaClient, Sight } from "../src/play/sight.js";
import { Watch } from "../src/play/watch.js";

interface Avatar {
  id: bigint;
  player: number;
  team: number;
  health: number;
}

/** A page with a mate (2), an enemy (3) and what the server was asked for. */
function page() {
  const asked: (bigint | null)[] = [];
  const client = {
    avatar: 1n,
    linked: true,
    watch: (id: bigint | null) => client.linked && asked.push(id),
    object: (id: bigint) => id,
  };
  const me: Avatar = { id: 1n, player: 1, team: 1, health: 100 };
  const avatars: Avatar[] = [me, { id: 2n, player: 2, team: 1, health: 100 }, { id: 3n, player: 3, team: 2, health: 100 }];
  const sight = { avatars, me, get: (id: bigint) => avatars.find((seen) => seen.id === id) };
  const watch = new Watch(client as unknown as ArenaClient, sight as unknown as Sight);
  return { asked, client, me, avatars, watch };
}

test("the camera stays with the own avatar while it is alive, and for a second after its death", () => {
  const { asked, me, watch } = page();
  watch.update(0);
  watch.toggle();
  watch.next(1);
  assert.deepEqual([watch.isAllowed, watch.whom, asked], [false, null, []]);
  me.health = 0;
  watch.update(5_000);
  watch.update(5_900);
  watch.toggle();
  assert.deepEqual([watch.whom, asked], [null, []]);
  watch.update(6_000);
  watch.toggle();
  assert.deepEqual([watch.isAllowed, watch.whom, asked], [true, 2n, [2n]]);
});

test("only team mates are watched, until the player is back", () => {
  const { asked, avatars, me, watch } = page();
  me.health = 0;
  watch.update(0);
  watch.update(1_500);
  watch.next(1);
  watch.next(1);
  watch.next(-1);
  assert.deepEqual([watch.whom, asked], [2n, [2n, 2n, 2n]]);
  assert.equal(watch.update(2_000), avatars[1]);
  me.health = 100;
  assert.equal(watch.update(3_000), me);
  assert.deepEqual([watch.whom, asked.at(-1)], [null, null]);
});

test("watching that ends without a link has ended after a reconnect", () => {
  const { asked, client, me, watch } = page();
  me.health = 0;
  watch.update(0);
  watch.update(1_500);
  watch.toggle();
  assert.equal(asked.at(-1), 2n);
  client.linked = false;
  watch.toggle();
  client.linked = true;
  watch.again();
  assert.deepEqual([watch.whom, asked.at(-1)], [null, null]);
});
