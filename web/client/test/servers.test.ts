/**
 * A session that moves between servers: each rule of section 10.1 of `docs/WIRE.md`, with scripted servers in virtual
 * time. Links are in memory.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { GameClient } from "../src/client/client.js";
import { ConnectError } from "../src/client/errors.js";
import { REFUSALS } from "../src/client/types.js";
import type { GameAdapter, RefusalCode } from "../src/client/types.js";
import type { Contact } from "../src/session/messages.js";
import { Reader, Writer } from "../src/session/postcard.js";
import type { Links } from "../src/transport/open.js";
import type { Closed, Transport } from "../src/transport/transport.js";
import type { Replicas } from "../src/replica/replicas.js";
import { Schema } from "../src/wire/schema.js";

const SCHEMA = Schema.parse("thing: max_speed=1 fall=0\nthing.on: Symbol { count: 2 } role=Plain floor=0\n");
const KEY = new Uint8Array(16).fill(3);
/** Milliseconds. */
const ROUND = 20;

type Said = { is: "hello"; key: number | null } | { is: "enter"; ticket: number } | { is: "other"; bytes: number[] };

/** One end of a link; the other is the server's. */
class Wire implements Transport {
  readonly kind = "webtransport";
  onDatagram: (bytes: Uint8Array) => void = () => {};
  onMessage: (bytes: Uint8Array) => void = () => {};
  onClose: (why: Closed) => void = () => {};
  readonly said: Said[] = [];
  readonly datagrams: Uint8Array[] = [];
  closed = false;

  constructor(readonly server: string) {}

  framing(): number {
    return 0;
  }

  message(bytes: Uint8Array): void {
    this.said.push(understood(bytes));
  }

  datagram(bytes: Uint8Array): void {
    this.datagrams.push(bytes);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.onClose({ code: 0, reason: "closed" });
  }

  private tell(variant: number, write: (out: Writer) => void = () => {}): void {
    const out = new Writer();
    out.u32(variant);
    write(out);
    this.onMessage(out.finish());
  }

  welcome(resumed = false): void {
    this.tell(0, (out) => {
      out.u8(3);
      out.u32(7);
      out.u64(0n);
      out.u32(100);
      out.u64(BigInt(ROUND * 1000));
      out.raw(KEY);
      out.bool(resumed);
    });
  }

  refuse(why: RefusalCode): void {
    this.tell(1, (out) => {
      out.u32(REFUSALS.indexOf(why));
      out.text(`no: ${why}`);
      out.text("");
    });
  }

  name(player: number, name: string): void {
    this.tell(2, (out) => {
      out.u32(player);
      out.text(name);
    });
  }

  event(event: number): void {
    this.tell(3, (out) => out.bytesValue(Uint8Array.of(event)));
  }

  redirect(server: string, ticket: number): void {
    this.tell(4, (out) => named(out, server, ticket));
  }

  next(server: string, ticket: number): void {
    this.tell(5, (out) => named(out, server, ticket));
  }

  wait(): void {
    this.tell(6);
  }

  hosted(epoch: bigint): void {
    this.tell(7, (out) => out.u64(epoch));
  }

  standby(server: string | null): void {
    this.tell(8, (out) => out.option(server, (it) => contact(out, it)));
  }

  /** A frame with one event and the tick of the welcome. */
  frame(event: number): void {
    this.onDatagram(Uint8Array.of(0x14, 4, 1, 0, event, 100, 0));
  }

  /** A frame with a state packet without records. */
  packet(seq: number): void {
    this.onDatagram(Uint8Array.of(0x14, 8, 0x11, seq, 0, 100, 0));
  }
}

function contact(out: Writer, server: string): void {
  out.u32(1);
  out.text(`${server}:1`);
  out.bytesValue(new Uint8Array(32).fill(1));
}

function named(out: Writer, server: string, ticket: number): void {
  contact(out, server);
  out.raw(new Uint8Array(16).fill(ticket));
}

function understood(bytes: Uint8Array): Said {
  const r = new Reader(bytes);
  const variant = r.u32();
  if (variant !== 0 && variant !== 6) return { is: "other", bytes: [...bytes] };
  assert.deepEqual([...r.bytesValue()], [1, 2, 3], "versions");
  assert.deepEqual([r.u64(), r.text()], [SCHEMA.hash, "ada"]);
  if (variant === 6) return { is: "enter", ticket: r.rest()[0] };
  r.bytesValue();
  return { is: "hello", key: r.option(() => r.raw(16)[0]) };
}

/** A world of servers that can be reached, or not; the page is at `home`. */
class World implements Links {
  readonly wires: Wire[] = [];
  readonly away = new Set<string>();
  readonly heard: number[] = [];
  readonly states: string[] = [];
  readonly client: GameClient<never, never, number>;

  constructor(private readonly t: TestContext) {
    t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
    const game: GameAdapter<never, never, number> = { decodeEvent: (reader) => reader.u8() };
    const options = { base: "http://example.invalid/", name: "ada", game };
    this.client = new GameClient(options, SCHEMA, this, () => Date.now());
    this.client.on("event", (event) => this.heard.push(event));
    this.client.on("state", (state) => this.states.push(state));
  }

  async open(to?: Contact): Promise<Transport> {
    const server = to?.addresses[0].split(":")[0] ?? "home";
    if (this.away.has(server)) throw new ConnectError("unreachable");
    const wire = new Wire(server);
    this.wires.push(wire);
    return wire;
  }

  distrust(): void {}

  get last(): Wire {
    return this.wires[this.wires.length - 1];
  }

  /** What was asked for has happened. */
  async settle(): Promise<void> {
    for (let n = 0; n < 10; n++) await Promise.resolve();
  }

  /** Lets time pass, with a frame of this host every 100 ms. */
  async pass(milliseconds: number, host: Wire | null = null): Promise<void> {
    for (let passed = 0; passed < milliseconds; passed += ROUND) {
      this.t.mock.timers.tick(ROUND);
      await this.settle();
      if (host !== null && passed % 100 === 0) host.frame(0);
    }
    this.heard.splice(0, this.heard.length, ...this.heard.filter((event) => event !== 0));
  }

  /** A player at the server `home`, session epoch 1. */
  async playing(): Promise<Wire> {
    const joined = this.client.join();
    await this.settle();
    const home = this.wires[0];
    home.welcome();
    home.hosted(1n);
    await joined;
    return home;
  }

  /** And with a link ahead that expects it. */
  async ready(): Promise<[home: Wire, next: Wire]> {
    const home = await this.playing();
    home.next("b", 9);
    await this.settle();
    this.last.wait();
    return [home, this.last];
  }
}

interface InsideReplicas {
  packet: Replicas["packet"];
  applyFull(n: number, alias: number, tick: number, changed: () => void): void;
}

/** Datagrams that a wire was given meanwhile. */
async function datagramsDuring(wires: readonly Wire[], act: () => Promise<void>): Promise<number[]> {
  const before = wires.map((wire) => wire.datagrams.length);
  await act();
  return wires.map((wire, n) => wire.datagrams.length - before[n]);
}

test("rule 1: the highest session epoch has the session; a lower one changes nothing", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  home.hosted(4n);
  next.hosted(3n);
  next.frame(1);
  home.frame(2);
  assert.deepEqual(world.heard, [2], "epoch 3 comes after 4");
  next.hosted(4n);
  next.frame(3);
  assert.deepEqual(world.heard, [2, 3], "the same epoch counts");
  assert.deepEqual([world.client.stats.moves, world.states], [1, ["playing"]]);
  world.client.leave();
});

test("rule 1: the former host's link is closed once a frame has come from the new host, not before", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  next.hosted(2n);
  await world.pass(200);
  assert.equal(home.closed, false);
  next.frame(1);
  assert.equal(home.closed, true);
  assert.deepEqual([world.client.state, world.client.stats.breaks, next.closed], ["playing", 0, false]);
  world.client.leave();
});

test("rule 1: a former host that is named anew by a higher epoch is the host again", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  next.hosted(2n);
  home.hosted(3n);
  home.frame(1);
  next.frame(2);
  assert.deepEqual([world.heard, next.closed, home.closed], [[1], true, false]);
  world.client.leave();
});

test("rule 1: epochs of another session begin anew", async (t) => {
  const world = new World(t);
  const home = await world.playing();
  home.hosted(40n);
  home.close();
  await world.pass(300);
  world.last.welcome(false);
  world.last.hosted(1n);
  const host = world.last;
  host.next("b", 9);
  await world.settle();
  world.last.wait();
  world.last.hosted(2n);
  world.last.frame(5);
  assert.deepEqual([world.heard, world.last.server], [[5], "b"]);
  world.client.leave();
});

test("rule 2: of another link than the host's no frames are read, and few messages", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  world.client.nameOf(9);
  next.frame(1);
  next.event(2);
  next.name(9, "bo");
  next.standby("c");
  next.next("d", 8);
  await world.settle();
  assert.deepEqual([world.heard, world.client.nameOf(9)], [[], ""]);
  assert.deepEqual(world.wires.map((wire) => wire.server), ["home", "b"], "its Next is not the host's");
  home.close();
  next.close();
  await world.pass(300);
  assert.equal(world.wires[2].server, "home", "its standby is not the host's");
  world.client.leave();
});

test("rule 2: Refused by the link ahead ends that link and nothing else", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  next.refuse("token");
  assert.deepEqual([next.closed, world.client.state, world.client.refusal], [true, "playing", null]);
  home.frame(1);
  assert.deepEqual(world.heard, [1]);
  // The key to resume is kept.
  home.close();
  await world.pass(300);
  assert.deepEqual(world.last.said[0], { is: "hello", key: 3 });
  world.client.leave();
});

test("rule 2: the server ahead may name another one", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  next.redirect("c", 5);
  await world.settle();
  assert.deepEqual([next.closed, home.closed, world.last.server], [true, false, "c"]);
  assert.deepEqual(world.last.said, [{ is: "enter", ticket: 5 }]);
  for (let n = 0; n < 20; n++) {
    world.last.redirect(n % 2 === 0 ? "b" : "c", n);
    await world.settle();
  }
  assert.ok(world.wires.length < 12 && world.last.closed, "servers that do not agree are not followed for ever");
  assert.equal(world.client.state, "playing");
  world.client.leave();
});

test("rule 3: with Hosted alone replicas, what arrived and input numbers go on", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  const gone: bigint[] = [];
  world.client.on("gone", (id) => gone.push(id));
  home.packet(1);
  home.packet(2);
  const { replicas } = (world.client as unknown as { core: { replicas: InsideReplicas } }).core;
  replicas.packet.clear();
  replicas.packet.kind[0] = 0;
  [replicas.packet.origin[0], replicas.packet.serial[0]] = [0, 5];
  replicas.packet.room(SCHEMA.kinds[0].lanes);
  replicas.applyFull(0, 1, 101, () => {});
  const shown = (): bigint[] => [...world.client.objects()].map(({ id }) => id);
  assert.deepEqual(shown(), [5n]);
  await world.pass(40);
  const before = world.client.tick;
  next.hosted(2n);
  await world.pass(20);
  assert.ok(world.client.tick > before && world.client.tick < before + 3, "the clock goes on");
  // The new host counts on from the former one's packets: 2 arrived before and is not taken again, 3 is new.
  next.packet(2);
  const refused = world.client.stats.refused;
  assert.equal(refused, 1, "twice");
  next.packet(3);
  await world.pass(20);
  const datagram = next.datagrams[next.datagrams.length - 1];
  assert.deepEqual([...datagram.subarray(4, 10)], [3, 0, 3, 0, 0, 0], "packets 3, 2 and 1 are acknowledged");
  assert.deepEqual([gone, shown(), world.client.player, world.states], [[], [5n], 7, ["playing"]]);
  world.client.leave();
});

test("rule 3: with Welcome everything begins as it says", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  home.frame(0);
  home.packet(9);
  next.welcome(false);
  next.hosted(2n);
  assert.equal(home.closed, true, "the former host has nothing to say any more");
  next.packet(1);
  await world.pass(20);
  const datagram = next.datagrams[next.datagrams.length - 1];
  assert.deepEqual([...datagram.subarray(4, 10)], [1, 0, 0, 0, 0, 0]);
  assert.deepEqual([world.client.state, world.client.stats.breaks], ["playing", 0]);
  world.client.leave();
});

test("rule 4: datagrams go to both links once Wait has come, messages to the host alone", async (t) => {
  const world = new World(t);
  const home = await world.playing();
  home.next("b", 9);
  await world.settle();
  const next = world.last;
  assert.deepEqual(next.said, [{ is: "enter", ticket: 9 }]);
  assert.deepEqual(await datagramsDuring([home, next], () => world.pass(100, home)), [5, 0], "before Wait");
  next.wait();
  assert.deepEqual(await datagramsDuring([home, next], () => world.pass(100, home)), [5, 5]);
  assert.deepEqual(home.datagrams[home.datagrams.length - 1], next.datagrams[next.datagrams.length - 1]);
  world.client.view(2);
  assert.deepEqual([home.said.length, next.said.length], [2, 1]);
  next.hosted(2n);
  world.client.view(3);
  assert.deepEqual([home.said.length, next.said.length], [2, 2]);
  assert.deepEqual(await datagramsDuring([home, next], () => world.pass(100)), [0, 5], "after the move");
  world.client.leave();
});

test("rule 5: Next for the same contact says Enter again, for another one leads there", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  home.next("b", 10);
  await world.settle();
  assert.deepEqual(world.wires.length, 2);
  assert.deepEqual(next.said, [{ is: "enter", ticket: 9 }, { is: "enter", ticket: 10 }]);
  home.next("c", 11);
  await world.settle();
  assert.deepEqual([next.closed, world.last.server, world.last.said], [true, "c", [{ is: "enter", ticket: 11 }]]);
  world.client.leave();
});

test("rule 5: a link ahead that cannot be made or ends is forgotten, and made when it is named again", async (t) => {
  const world = new World(t);
  const home = await world.playing();
  world.away.add("b");
  home.next("b", 9);
  await world.pass(100, home);
  world.away.clear();
  home.next("b", 10);
  await world.settle();
  assert.deepEqual(world.last.said, [{ is: "enter", ticket: 10 }]);
  world.last.wait();
  world.last.close();
  assert.deepEqual([world.client.state, home.closed], ["playing", false]);
  home.next("b", 11);
  await world.settle();
  assert.deepEqual([world.wires.length, world.last.said], [3, [{ is: "enter", ticket: 11 }]]);
  world.client.leave();
});

test("rule 5: a link that stands after another was wanted is closed", async (t) => {
  const world = new World(t);
  const home = await world.playing();
  home.next("b", 9);
  home.next("c", 10);
  await world.settle();
  assert.deepEqual(world.wires.map(({ server, closed }) => [server, closed]), [["home", false], ["b", true], ["c", false]]);
  world.client.leave();
});

test("rule 6: after 500 ms of silence, and not before, the standby is asked with the key", async (t) => {
  const world = new World(t);
  const home = await world.playing();
  home.standby("b");
  home.frame(1);
  await world.pass(480);
  assert.equal(world.wires.length, 1);
  await world.pass(40);
  assert.deepEqual([world.last.server, world.last.said], ["b", [{ is: "hello", key: 3 }]]);
  world.last.wait();
  await world.pass(1_000);
  assert.deepEqual([world.wires.length, world.last.said.length, world.client.state], [2, 1, "playing"], "one link is enough");
  world.last.welcome(true);
  world.last.hosted(2n);
  world.last.frame(2);
  assert.deepEqual([home.closed, world.heard, world.states], [true, [1, 2], ["playing"]]);
  world.client.leave();
});

test("rule 6: a frame of the host ends the link to the standby; a host that speaks is not silent", async (t) => {
  const world = new World(t);
  const home = await world.playing();
  home.standby("b");
  await world.pass(1_000, home);
  assert.equal(world.wires.length, 1);
  await world.pass(540);
  const standby = world.last;
  standby.wait();
  assert.equal(standby.server, "b");
  home.frame(1);
  assert.deepEqual([standby.closed, home.closed, world.client.state], [true, false, "playing"]);
  // With a ticket it is no link to a standby, and stays.
  home.next("c", 9);
  await world.settle();
  home.frame(1);
  assert.equal(world.last.closed, false);
  world.client.leave();
});

test("rule 6: a standby that cannot be reached is tried again, and none is tried where there is none", async (t) => {
  const world = new World(t);
  const home = await world.playing();
  world.away.add("b");
  home.standby("b");
  await world.pass(800);
  world.away.clear();
  await world.pass(400);
  assert.equal(world.last.server, "b");
  home.frame(0);
  home.standby(null);
  const before = world.wires.length;
  await world.pass(1_500);
  assert.equal(world.wires.length, before);
  world.client.leave();
});

test("rule 7: a host's link that ends is forgotten while the next server expects us", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  home.close();
  assert.deepEqual([world.client.state, world.client.stats.breaks], ["playing", 0]);
  assert.deepEqual(await datagramsDuring([next], () => world.pass(100)), [5], "inputs go on");
  next.hosted(2n);
  next.frame(1);
  assert.deepEqual([world.heard, world.states, world.wires.length], [[1], ["playing"], 2]);
  world.client.leave();
});

test("rule 7: a host that closes says so, and the key is still good at the others", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  home.refuse("closing");
  assert.deepEqual([home.closed, world.client.state], [true, "playing"]);
  next.close();
  assert.equal(world.client.state, "reconnecting");
  await world.pass(300);
  assert.deepEqual(world.last.said, [{ is: "hello", key: 3 }]);
  world.client.leave();
});

test("rule 7: without a server ahead the standby is asked first, at once, then the page's server", async (t) => {
  const world = new World(t);
  const home = await world.playing();
  home.standby("b");
  home.close();
  assert.equal(world.client.state, "reconnecting");
  await world.pass(ROUND);
  assert.deepEqual([world.last.server, world.last.said], ["b", [{ is: "hello", key: 3 }]]);
  world.last.wait();
  await world.pass(12_000);
  assert.equal(world.last.closed, false, "a server that says Wait is waited for");
  world.last.close();
  await world.pass(600);
  assert.equal(world.last.server, "home");
  world.last.welcome(true);
  assert.deepEqual([world.client.state, world.client.stats.breaks], ["playing", 1]);
  world.client.leave();
});

test("rule 7: a server ahead that says nothing is not waited for without end", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  home.frame(1);
  home.close();
  await world.pass(4_900);
  assert.equal(world.client.state, "playing");
  await world.pass(600);
  assert.equal(next.closed, true);
  assert.notEqual(world.client.state, "playing");
  world.client.leave();
});

test("Redirect leads to another server before the welcome and after, and not in circles", async (t) => {
  const world = new World(t);
  const joined = world.client.join();
  await world.settle();
  const home = world.last;
  home.redirect("b", 4);
  await world.settle();
  assert.deepEqual([home.closed, world.last.server, world.last.said], [true, "b", [{ is: "enter", ticket: 4 }]]);
  world.last.wait();
  world.last.welcome();
  world.last.hosted(1n);
  await joined;
  world.last.redirect("c", 5);
  await world.settle();
  assert.deepEqual([world.last.server, world.last.said], ["c", [{ is: "enter", ticket: 5 }]]);
  world.last.hosted(2n);
  world.last.frame(1);
  assert.deepEqual([world.client.state, world.heard], ["playing", [1]], "Hosted alone: it goes on");
  for (let n = 0; n < 20 && !world.last.closed; n++) {
    world.last.redirect("b", n);
    await world.settle();
  }
  assert.equal(world.last.closed, true);
  world.client.leave();
});

test("an answer to joining that is Redirect to an unreachable server fails", async (t) => {
  const world = new World(t);
  world.away.add("b");
  const joined = world.client.join();
  await world.settle();
  world.last.redirect("b", 4);
  await assert.rejects(joined, ConnectError);
});

test("leaving closes all links", async (t) => {
  const world = new World(t);
  const [home, next] = await world.ready();
  world.client.leave();
  await world.pass(200);
  assert.deepEqual([home.closed, next.closed, home.said[1]], [true, true, { is: "other", bytes: [3] }]);
});

test("at a plain server nothing of this happens", async (t) => {
  const world = new World(t);
  const joined = world.client.join();
  await world.settle();
  world.last.welcome();
  await joined;
  await world.pass(2_000);
  assert.equal(world.wires.length, 1);
  world.client.leave();
});
