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

interface Counted {
  stateBytes: number;
  bytesDown: number;
}

interface Figures {
  tick: number;
  observers: { player: number; bytes_s: number; link_bytes_s: number }[];
}

test("page and meter agree on bytes a second, whatever the view", async (t) => {
  const server = await Server.start({ bots: 60, players: 64, seed: 1 });
  const player = await Person.create(browser, { width: 480, height: 320 });
  await player.join(server.url, "max");
  const operator = await Person.create(browser, { width: 980, height: 480 });
  await operator.page.goto(`${server.url}/observatory`);
  await operator.until<Figures>("figures", (figures) => figures.observers.length > 0, "figures come");
  const id = await player.fact<number>("player");
  await operator.page.getByTestId("tab-view").click();
  for (const preset of ["normal", "a3", "circle", "broadcast"]) {
    await operator.page.getByTestId(`preset-${preset}`).click();
    await operator.page.waitForTimeout(3_000);
    const { page, meter, payload, link } = await both(player, operator, id, 30);
    const off = Math.abs(page / meter - 1);
    t.diagnostic(
      `${preset}: states ${page.toFixed(0)} B/s by the page, ${meter.toFixed(0)} by the server, ` +
        `${(off * 100).toFixed(2)} % apart; all that is handed over ${payload.toFixed(0)}, on the link ${link.toFixed(0)}`,
    );
    assert.ok(off < AGREE, `${preset}: ${page} and ${meter}`);
  }
  await player.close();
  await operator.close();
  await server.stop();
});

/** Bytes of states a second, as the page counts them and as the server does, over the same time. */
async function both(
  player: Person,
  operator: Person,
  id: number,
  seconds: number,
): Promise<{ page: number; meter: number; payload: number; link: number }> {
  const row = (figures: Figures) => figures.observers.find((one) => one.player === id)!;
  const next = async (last: number): Promise<Figures> =>
    operator.until<Figures>("figures", (figures) => figures.tick !== last, "figures come");
  // Both begin and end where the server's second does.
  let figures = await next((await operator.fact<Figures>("figures")).tick);
  const [began, from] = [figures.tick, await player.fact<Counted>("stats")];
  let [states, link] = [0, 0];
  for (let second = 0; second < seconds; second += 1) {
    const before = figures.tick;
    figures = await next(before);
    // Rates are per second of the server; its ticks say how long that was.
    states += (row(figures).bytes_s * (figures.tick - before)) / HZ;
    link += (row(figures).link_bytes_s * (figures.tick - before)) / HZ;
  }
  const to = await player.fact<Counted>("stats");
  const span = (figures.tick - began) / HZ;
  return {
    page: (to.stateBytes - from.stateBytes) / span,
    payload: (to.bytesDown - from.bytesDown) / span,
    meter: states / span,
    link: link / span,
  };
}

test("two hundred avatars cost little", async (t) => {
  const server = await Server.start({ bots: 200, players: 208, seed: 2 });
  const player = await Person.create(browser);
  await player.join(server.url, "flora");
  const operator = await Person.create(browser);
  await operator.page.goto(`${server.url}/observatory`);
  await operator.page.getByTestId("tab-view").click();
  // Everything to everybody, so that all two hundred are there.
  await operator.page.getByTestId("preset-broadcast").click();
  await player.until<{ avatars: number }>("counts", (counts) => counts.avatars > 195, "all are seen", 60_000);
  await operator.close();
  await player.page.keyboard.press("KeyZ");
  await player.page.waitForTimeout(15_000);
  const frames = await player.fact<Record<string, number>>("frames");
  const stats = await player.fact<{ decodeMicros: number; updates: number }>("stats");
  t.diagnostic(`frames: ${JSON.stringify(frames)}`);
  t.diagnostic(`decoding: ${(stats.decodeMicros / stats.updates).toFixed(2)} µs an update, ${stats.updates} updates`);
  assert.ok(frames.workP50! < WORK, JSON.stringify(frames));
  await player.close();
  await server.stop();
});

test("memory does not grow", { skip: soak() === 0 }, async (t) => {
  const server = await Server.start({ bots: 60, players: 64, seed: 1 });
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
  await server.stop();
});

function soak(): number {
  return Number(process.env.FOVEATE_SOAK_MINUTES ?? 0);
}
