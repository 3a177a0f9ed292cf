import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Person } from "./browser.js";
import { Server } from "./server.js";

let browser: Browser;

before(async () => {
  browser = await launch();
});

after(async () => {
  await browser?.close();
});

/** What the server counts of a link and what the page counts may differ by this share. */
const AGREE = 0.02;
/** Our own work in most frames with 200 avatars, in milliseconds: what 60 frames a second leave. */
const WORK = 16;

/** Ticks a second. */
const HZ = 20;
/** How long each view is watched, in seconds. */
const WATCHED = 20;

interface Figures {
  tick: number;
  observers: { player: number; bytes_s: number; link_bytes_s: number }[];
}

/** What the page had counted at a tick of the server. */
interface Counted {
  tick: number;
  stateBytes: number;
  bytesDown: number;
  packets: number;
  lost: number;
}

/** What the tests put into a page's window. */
interface Notes {
  counted: Counted[];
  figures: Figures[];
  presets: { name: string; view: unknown }[];
  send: (command: unknown) => void;
}

/** Writes down what the page counts, several times a second. */
async function takeNotes(player: Person): Promise<void> {
  await player.page.evaluate(() => {
    const page = window as unknown as { notes: Partial<Notes>; foveate: Record<string, unknown> };
    const counted: Counted[] = [];
    page.notes = { counted };
    setInterval(() => {
      const stats = page.foveate.stats as Counted & { stateTick: number };
      // By the tick of the last packet that was read: a page that lags is no error.
      const { stateTick, stateBytes, bytesDown, packets, lost } = stats;
      if (counted.at(-1)?.tick === stateTick) return;
      counted.push({ tick: stateTick, stateBytes, bytesDown, packets, lost });
    }, 100);
  });
}

/** An operator without a picture: drawing would take the time that the player's page needs. */
async function lookOn(operator: Person): Promise<void> {
  await operator.page.evaluate(async () => {
    const page = window as unknown as { notes: Partial<Notes> };
    const socket = new WebSocket(`ws://${location.host}/observe`);
    socket.binaryType = "arraybuffer";
    const figures: Figures[] = [];
    await new Promise<void>((ready, failed) => {
      socket.onclose = () => failed(new Error("the operator was not let in"));
      socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
        const message = JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data)) as {
          type: string;
        };
        if (message.type === "figures") figures.push(message as unknown as Figures);
        if (message.type !== "hello") return;
        const { presets } = message as unknown as Notes;
        page.notes = { figures, presets, send: (command) => socket.send(JSON.stringify(command)) };
        ready();
      };
    });
  });
}

async function choose(operator: Person, preset: string): Promise<void> {
  await operator.page.evaluate((name) => {
    const { notes } = window as unknown as { notes: Notes };
    const { view } = notes.presets.find((one) => one.name === name)!;
    notes.send({ type: "view", player: null, view });
    notes.figures.length = 0;
  }, preset);
  await operator.page.waitForTimeout(4_000);
}

test("page and server agree on bytes a second, whatever the view", async (t) => {
  const server = await Server.start({ bots: 60, players: 64, seed: 1 });
  t.after(() => server.stop());
  const player = await Person.create(browser, { width: 480, height: 320 });
  await player.join(server.url, "max");
  const id = await player.fact<number>("player");
  await takeNotes(player);
  const operator = await Person.create(browser, { width: 480, height: 320 });
  await operator.page.goto(`${server.url}/lab`);
  await lookOn(operator);
  for (const preset of ["normal", "a3", "circle", "broadcast"]) {
    await choose(operator, preset);
    await operator.page.waitForTimeout(WATCHED * 1_000);
    const figures = await operator.page.evaluate(() => (window as unknown as { notes: Notes }).notes.figures);
    await player.until<{ stateTick: number }>(
      "stats",
      (stats) => stats.stateTick > figures.at(-1)!.tick + HZ,
      "the page has caught up",
    );
    const counted = await player.page.evaluate(() => (window as unknown as { notes: Notes }).notes.counted);
    const { page, meter, loss, payload, link } = compared(figures, counted, id);
    const off = Math.abs(page / meter - 1);
    t.diagnostic(
      `${preset}: states ${page.toFixed(0)} B/s by the page, ${meter.toFixed(0)} by the server, ` +
        `${(off * 100).toFixed(2)} % apart, ${(loss * 100).toFixed(1)} % of packets lost; all that is handed over ${payload.toFixed(0)}, on the link ${link.toFixed(0)}`,
    );
    assert.ok(off < AGREE, `${preset}: ${page} and ${meter}`);
  }
  await player.close();
  await operator.close();
});

/** Both ends' bytes a second between the same two ticks of the server. */
function compared(figures: Figures[], counted: Counted[], id: number) {
  // The first figures may be of a second in which the view changed.
  const told = figures.slice(3);
  const [from, to] = [told[0]!.tick, told.at(-1)!.tick];
  const span = (to - from) / HZ;
  const sum = (of: "bytes_s" | "link_bytes_s"): number =>
    told.slice(1).reduce((total, one, index) => {
      const row = one.observers.find((observer) => observer.player === id)!;
      return total + (row[of] * (one.tick - told[index]!.tick)) / HZ;
    }, 0);
  const at = (tick: number, of: Exclude<keyof Counted, "tick">): number => {
    const next = counted.findIndex((note) => note.tick >= tick);
    const [a, b] = [counted[next - 1]!, counted[next]!];
    return a[of] + ((b[of] - a[of]) * (tick - a.tick)) / (b.tick - a.tick);
  };
  const passed = (of: Exclude<keyof Counted, "tick">): number => at(to, of) - at(from, of);
  // What a page without time for its datagrams lets go was sent all the same.
  const loss = passed("lost") / (passed("lost") + passed("packets"));
  return {
    page: passed("stateBytes") / (1 - loss) / span,
    loss,
    payload: passed("bytesDown") / span,
    meter: sum("bytes_s") / span,
    link: sum("link_bytes_s") / span,
  };
}

test("two hundred avatars cost little", async (t) => {
  const server = await Server.start({ bots: 200, players: 208, seed: 2 });
  t.after(() => server.stop());
  const player = await Person.create(browser);
  await player.join(server.url, "flora");
  const operator = await Person.create(browser);
  await operator.page.goto(`${server.url}/observatory`);
  await operator.page.getByTestId("tab-view").click();
  // All states to all players, so that all two hundred are present.
  await operator.page.getByTestId("preset-broadcast").click();
  await player.until<{ avatars: number }>("counts", (counts) => counts.avatars > 195, "all are seen");
  await operator.close();
  await player.page.keyboard.press("KeyZ");
  await player.page.waitForTimeout(15_000);
  const frames = await player.fact<Record<string, number>>("frames");
  const stats = await player.fact<{ decodeMicros: number; updates: number }>("stats");
  t.diagnostic(`frames: ${JSON.stringify(frames)}`);
  t.diagnostic(`decoding: ${(stats.decodeMicros / stats.updates).toFixed(2)} µs an update, ${stats.updates} updates`);
  assert.ok(frames.workP50! < WORK, JSON.stringify(frames));
  await player.close();
});

test("memory does not grow", { skip: soak() === 0 }, async (t) => {
  const server = await Server.start({ bots: 60, players: 64, seed: 1 });
  t.after(() => server.stop());
  const player = await Person.create(browser);
  await player.join(server.url, "sol");
  const session = await player.context.newCDPSession(player.page);
  const used = async (): Promise<number> => {
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = (await session.send("Runtime.getHeapUsage")) as { usedSize: number };
    return usedSize / 2 ** 20;
  };
  await player.page.waitForTimeout(60_000);
  const begin = await used();
  for (let minute = 1; minute <= soak(); minute += 1) {
    await player.page.waitForTimeout(60_000);
    t.diagnostic(`after ${minute} min: ${(await used()).toFixed(1)} MiB, at first ${begin.toFixed(1)} MiB`);
  }
  const grown = (await used()) - begin;
  assert.ok(grown < 3, `grown by ${grown} MiB`);
  await player.close();
});

function soak(): number {
  return Number(process.env.FOVEATE_SOAK_MINUTES ?? 0);
}
