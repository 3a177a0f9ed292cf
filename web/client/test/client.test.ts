/** The client's life: joining, refusals, breaks, coming back, giving a transport up. Links are in memory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { GameClient } from "../src/client/client.js";
import { ConnectError, RefusedError } from "../src/client/errors.js";
import { REFUSALS } from "../src/client/types.js";
import type { ClientState, GameAdapter, RefusalCode } from "../src/client/types.js";
import { Reader, Writer } from "../src/session/postcard.js";
import type { Links } from "../src/transport/open.js";
import type { Closed, Transport } from "../src/transport/transport.js";
import { Parts } from "../src/transport/webtransport.js";
import type { Change, Replica, Replicas } from "../src/replica/replicas.js";
import { Schema } from "../src/wire/schema.js";

const SCHEMA = Schema.parse("thing: max_speed=1 fall=0\nthing.on: Symbol { count: 2 } role=Plain floor=0\n");
const KEY = new Uint8Array(16).fill(3);

/** One end of a link; the test controls the server at the other end. */
class Wire implements Transport {
  onDatagram: (bytes: Uint8Array) => void = () => {};
  onMessage: (bytes: Uint8Array) => void = () => {};
  onClose: (why: Closed) => void = () => {};
  readonly said: Uint8Array[] = [];
  datagrams = 0;
  closed = false;

  constructor(
    readonly kind: Transport["kind"],
    private readonly answer: (wire: Wire) => void,
  ) {}

  message(bytes: Uint8Array): void {
    this.said.push(bytes);
    if (this.said.length === 1) queueMicrotask(() => this.answer(this));
  }

  framing(): number {
    return 0;
  }

  datagram(): void {
    this.datagrams++;
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.onClose({ code: 0, reason: "closed" });
  }

  /** The key with which the client wants to come back. */
  resume(): Uint8Array | null {
    const r = new Reader(this.said[0]);
    assert.equal(r.u32(), 0);
    r.bytesValue();
    assert.equal(r.u64(), SCHEMA.hash);
    r.text();
    r.bytesValue();
    return r.option(() => r.raw(16));
  }
}

function welcome(wire: Wire, resumed = false): void {
  const out = new Writer();
  out.u32(0);
  out.u8(1);
  out.u32(7);
  out.u64(0n);
  out.u32(100);
  out.u64(20_000n);
  out.raw(KEY);
  out.bool(resumed);
  wire.onMessage(out.finish());
}

function refuse(why: RefusalCode): (wire: Wire) => void {
  return (wire) => {
    const out = new Writer();
    out.u32(1);
    out.u32(REFUSALS.indexOf(why));
    out.text(`no: ${why}`);
    out.text("");
    wire.onMessage(out.finish());
  };
}

/** Links whose servers answer in turn; beyond the last there is no link. */
class Script implements Links {
  readonly wires: Wire[] = [];
  distrusted = 0;

  constructor(private readonly answers: { kind?: Transport["kind"]; answer: (wire: Wire) => void }[]) {}

  async open(): Promise<Transport> {
    const next = this.answers[this.wires.length];
    if (next === undefined) throw new ConnectError("nobody there");
    const wire = new Wire(next.kind ?? "websocket", next.answer);
    this.wires.push(wire);
    return wire;
  }

  distrust(): void {
    this.distrusted++;
  }
}

function clientOf(links: Links, game: GameAdapter<never, never, never> = {}): GameClient<never, never, never> {
  return new GameClient({ base: "http://example.invalid/", name: "ada", game }, SCHEMA, links);
}

/** Resolves when the client becomes this. */
function becomes(client: GameClient<never, never, never>, wanted: ClientState): Promise<void> {
  return new Promise((resolve) => {
    const stop = client.on("state", (state) => {
      if (state !== wanted) return;
      stop();
      resolve();
    });
  });
}

test("joins, ticks, and leaves with a word", async () => {
  const script = new Script([{ answer: welcome }]);
  const client = clientOf(script);
  await client.join();
  assert.equal(client.state, "playing");
  assert.deepEqual([client.player, client.avatar, client.round], [7, 0n, 20]);
  assert.equal(client.nameOf(9), "");
  const named = new Promise<string>((resolve) => client.on("name", (_, name) => resolve(name)));
  script.wires[0].onMessage(Uint8Array.of(2, 9, 2, 0x62, 0x6f));
  assert.equal(await named, "bo");
  assert.equal(client.nameOf(9), "bo");
  client.leave();
  assert.equal(client.state, "closed");
  assert.ok(script.wires[0].datagrams > 0);
  assert.deepEqual(script.wires[0].said.slice(1).map((bytes) => [...bytes]), [[5, 9], [3]]);
});

test("a page's mistakes neither end the link nor stop its rounds", async () => {
  const mistakes: unknown[] = [];
  Object.assign(globalThis, { reportError: (error: unknown) => mistakes.push(error) });
  const script = new Script([{ answer: welcome }]);
  const client = clientOf(script, { decodeEvent: (reader) => reader.u8() as never });
  await client.join();
  const heard: number[] = [];
  client.on("event", (event) => {
    heard.push(event);
    throw new Error("a listener's");
  });
  client.on("event", (event) => heard.push(event));
  script.wires[0].onDatagram(Uint8Array.of(0x14, 4, 2, 0, 5, 6, 100, 0));
  assert.deepEqual(heard, [5, 5, 6, 6]);
  assert.equal(mistakes.length, 2);
  Object.assign(globalThis, { reportError: undefined });
  client.leave();
});

test("a refused client gets the reason", async () => {
  const client = clientOf(new Script([{ answer: refuse("name-taken") }]));
  await assert.rejects(client.join(), (error: unknown) => error instanceof RefusedError && error.refusal.why === "name-taken");
  assert.equal(client.state, "refused");
  assert.equal(client.refusal?.text, "no: name-taken");
});

test("a link that breaks before the welcome is a failure to connect", async () => {
  const client = clientOf(new Script([{ answer: (wire) => wire.close() }]));
  await assert.rejects(client.join(), ConnectError);
  assert.equal(client.state, "closed");
});

test("after a break the session goes on with its key, also past passing refusals", async () => {
  const script = new Script([
    { answer: welcome },
    { answer: (wire) => wire.close() },
    { answer: refuse("closing") },
    { answer: (wire) => welcome(wire, false) },
  ]);
  const client = clientOf(script);
  await client.join();
  const back = becomes(client, "reconnecting").then(() => becomes(client, "playing"));
  script.wires[0].close();
  assert.equal(client.state, "reconnecting");
  await back;
  assert.deepEqual(script.wires.map((wire) => wire.resume()?.[0] ?? null), [null, 3, 3, null]);
  assert.equal(client.stats.breaks, 1);
  client.leave();
});

test("nothing is said between the hello and the welcome", async () => {
  const script = new Script([{ answer: welcome }, { answer: () => {} }]);
  const client = clientOf(script);
  await client.join();
  client.nameOf(4);
  script.wires[0].close();
  while (script.wires.length < 2 || script.wires[1].said.length === 0) await new Promise((later) => setTimeout(later, 5));
  client.view(1);
  client.watch(1n);
  client.ask(1n, undefined as never);
  client.nameOf(5);
  assert.equal(script.wires[1].said.length, 1, "a server refuses who speaks out of turn");
  welcome(script.wires[1], true);
  assert.deepEqual(script.wires[1].said.slice(1).map((bytes) => [...bytes]), [[5, 4], [5, 5]], "names are asked for again");
  client.leave();
});

test("a refusal that does not pass ends coming back", async () => {
  const script = new Script([{ answer: welcome }, { answer: refuse("schema") }]);
  const client = clientOf(script);
  await client.join();
  const refused = becomes(client, "refused");
  script.wires[0].close();
  await refused;
  assert.equal(client.refusal?.why, "schema");
});

test("in another session a player's number is another player's", async () => {
  const script = new Script([{ answer: welcome }, { answer: (wire) => welcome(wire, false) }]);
  const client = clientOf(script);
  await client.join();
  client.nameOf(9);
  script.wires[0].onMessage(Uint8Array.of(2, 9, 2, 0x62, 0x6f));
  assert.equal(client.nameOf(9), "bo");
  const back = becomes(client, "reconnecting").then(() => becomes(client, "playing"));
  script.wires[0].close();
  await back;
  assert.equal(client.nameOf(9), "");
  assert.deepEqual(script.wires[1].said.slice(1).map((bytes) => [...bytes]), [[5, 9]]);
  script.wires[1].onMessage(Uint8Array.of(2, 9, 2, 0x61, 0x6c));
  assert.equal(client.nameOf(9), "al");
  client.leave();
});

test("WebTransport that lets nothing through is given up for good", async () => {
  const script = new Script([{ kind: "webtransport", answer: welcome }, { answer: (wire) => welcome(wire, true) }]);
  const client = clientOf(script);
  await client.join();
  await becomes(client, "reconnecting");
  assert.equal(script.distrusted, 1);
  assert.ok(script.wires[0].closed);
  await becomes(client, "playing");
  assert.equal(client.stats.transport, "websocket");
  client.leave();
});

test("WebTransport that stands, but lets no welcome through, is given up for WebSocket", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const script = new Script([{ kind: "webtransport", answer: () => t.mock.timers.tick(8_000) }, { answer: welcome }]);
  const client = clientOf(script);
  await client.join();
  assert.deepEqual([client.state, client.stats.transport, script.distrusted], ["playing", "websocket", 1]);
  assert.ok(script.wires[0].closed);
  client.leave();
});

test("while timers sleep what comes drives the rounds", async (t) => {
  const script = new Script([{ answer: welcome }]);
  const client = clientOf(script);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  await client.join();
  const before = script.wires[0].datagrams;
  const said = (): number => script.wires[0].datagrams - before;
  for (const end = performance.now() + 120_000; said() < 10 && performance.now() < end; ) {
    await new Promise((later) => setImmediate(later));
    script.wires[0].onDatagram(Uint8Array.of(0x14, 0, 100, 0));
  }
  assert.ok(said() >= 10, `${said()} rounds`);
  client.leave();
});

test("messages on a stream are cut where their lengths say, whatever the pieces", () => {
  const all = [[], [1, 2, 3], [4], Array<number>(300).fill(5)];
  const stream = Uint8Array.from(all.flatMap((m) => [m.length & 255, m.length >> 8, 0, 0, ...m]));
  for (const piece of [1, 2, 3, 5, 64, 1000]) {
    const [parts, found] = [new Parts(), [] as number[][]];
    for (let at = 0; at < stream.length; at += piece) {
      parts.add(stream.subarray(at, at + piece));
      for (let next = parts.next(); next !== null; next = parts.next()) found.push([...next]);
    }
    assert.deepEqual(found, all);
  }
  const parts = new Parts();
  parts.add(Uint8Array.of(0, 0, 0, 1));
  assert.throws(() => parts.next());
});

test("what has left the view is left out unless asked for, and liveness tells what may be relied on", async () => {
  const script = new Script([{ answer: welcome }]);
  const client = clientOf(script);
  await client.join();
  type Changed = (change: Change, replica: Replica) => void;
  interface Inside {
    packet: Replicas["packet"];
    applyFull(n: number, alias: number, tick: number, changed: Changed): void;
    notice(alias: number, life: "frozen" | "gone", tick: number, changed: Changed): void;
  }
  const { replicas } = (client as unknown as { core: { replicas: Inside } }).core;
  for (const [alias, serial] of [[0, 5], [1, 6]] as const) {
    replicas.packet.clear();
    replicas.packet.kind[0] = 0;
    [replicas.packet.origin[0], replicas.packet.serial[0]] = [0, serial];
    replicas.packet.room(SCHEMA.kinds[0].lanes);
    replicas.applyFull(0, alias, 101, () => {});
  }
  replicas.notice(1, "frozen", 102, () => {});
  const ids = (which?: { frozen: boolean }): bigint[] => [...client.objects(which)].map(({ id }) => id);
  assert.deepEqual([ids(), ids({ frozen: true })], [[5n], [5n, 6n]]);
  assert.deepEqual([client.liveness(5n), client.liveness(6n), client.liveness(7n)], ["live", "frozen", undefined]);
  assert.equal(client.object(6n)?.frozen, true);
  // 101 rounds of 20 ms without a word.
  (client as unknown as { quiet: number }).quiet = 101;
  assert.deepEqual([client.liveness(5n), client.liveness(6n)], ["lingering", "frozen"]);
  client.leave();
});

test("reliable events come as messages, in order", async () => {
  const script = new Script([{ answer: welcome }]);
  const game: GameAdapter<never, never, number> = { decodeEvent: (reader) => reader.u8() };
  const client = new GameClient({ base: "http://example.invalid/", name: "ada", game }, SCHEMA, script);
  await client.join();
  const heard: number[] = [];
  client.on("event", (event) => heard.push(event));
  script.wires[0].onMessage(Uint8Array.of(3, 2, 101, 102));
  script.wires[0].onMessage(Uint8Array.of(3, 1, 103));
  assert.deepEqual(heard, [101, 102, 103]);
  client.leave();
});
