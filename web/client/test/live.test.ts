/** On a live server, over WebSocket: `FOVEATE_SERVER=http://127.0.0.1:8080 npm test`. It plays the arena with some bots. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AVATAR, arenaGame, parseArena } from "../src/arena/index.js";
import type { Action, ArenaGame, Controls, Event } from "../src/arena/index.js";
import { RefusedError, connect, newSample } from "../src/index.js";
import type { Client } from "../src/index.js";

const BASE = process.env["FOVEATE_SERVER"] ?? "";
const ABSENT = BASE === "" ? "no server is named: FOVEATE_SERVER" : false;

async function fetched(path: string): Promise<string> {
  const answer = await fetch(new URL(path, BASE));
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.text();
}

async function arena(): Promise<ArenaGame> {
  return arenaGame(await fetched("/schema.txt"), parseArena(JSON.parse(await fetched("/arena.json"))));
}

/** Waits until something holds; a test runner's time limit ends what never does. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}

function join(game: ArenaGame, name: string): Promise<Client<Controls, Action, Event>> {
  return connect({ base: BASE, name, game, transport: "websocket" });
}

/** Walks in circles for this many inputs. */
function walk(client: Client<Controls, Action, Event>, inputs: number): () => boolean {
  let given = 0;
  client.onTick(() => ({ walk: { forward: 127, strafe: 0, yaw: (given++ * 400) & 0xffff }, fire: null, hands: "blaster" }));
  return () => given > inputs;
}

test("a page that knows no game sees the others move", { skip: ABSENT, timeout: 60_000 }, async () => {
  const client = await connect({ base: BASE, name: `watcher-${process.pid}`, game: {}, transport: "websocket" });
  await until(() => client.stats.packets > 40 && [...client.objects()].length > 5);
  const sample = newSample();
  const places = (): string => [...client.objects()].map(({ id }) => (client.sample(id, sample) ? sample.place.join() : "")).join(" ");
  const before = places();
  await until(() => client.stats.packets > 80);
  assert.notEqual(places(), before);
  const value = client.value(client.avatar);
  assert.ok(Array.isArray(value?.["pos"]) && client.stats.rtt >= 0);
  client.leave();
});

test("the own avatar is where it was predicted, and its name is known", { skip: ABSENT, timeout: 120_000 }, async (t) => {
  const [game, name] = [await arena(), `walker-${process.pid}`];
  const client = await join(game, name);
  await until(() => client.own() !== null);
  const start = client.own()?.place.slice() ?? [];
  await until(walk(client, 200));
  const { stats } = client;
  const per = (stats.decodeMicros / stats.updates).toFixed(1);
  t.diagnostic(`${stats.foreseen} foreseen, ${stats.corrected} corrected, ${per} µs an update, rtt ${stats.rtt.toFixed(1)} ms`);
  assert.notDeepEqual(client.own()?.place.slice(), start);
  assert.ok(stats.foreseen > 100 && stats.corrected < stats.foreseen / 5);
  await until(() => client.nameOf(client.player) === name);
  const views = [...client.objects()].filter(({ kind }) => kind === AVATAR).length;
  assert.ok(views >= 1);
  await assert.rejects(join(game, name), (error: unknown) => error instanceof RefusedError && error.refusal.why === "name-taken");
  client.leave();
});

test("a client whose link breaks plays on", { skip: ABSENT, timeout: 120_000 }, async () => {
  const client = await join(await arena(), `breaker-${process.pid}`);
  await until(walk(client, 20));
  const { player } = client;
  // The one way to cut a link from here: the transport is the client's own.
  (client as unknown as { transport: { close(): void } }).transport.close();
  assert.equal(client.state, "reconnecting");
  await until(() => client.state === "playing");
  const heard = client.stats.packets;
  await until(() => client.stats.packets > heard + 20);
  assert.deepEqual([client.player, client.stats.breaks], [player, 1]);
  client.leave();
});
