import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Person } from "./browser.js";
import { Server } from "./server.js";

/** A busy machine may take this long to show what the server did at once, in milliseconds. */
const SLOW = 120_000;

let browser: Browser;
let server: Server;
let player: Person;
let operator: Person;

before(async () => {
  server = await Server.start({ bots: 60, players: 64, seed: 1 });
  browser = await launch();
  // Small: without a graphics card every pixel costs.
  player = await Person.create(browser, { width: 480, height: 320 });
  await player.join(server.url, "olga");
  operator = await Person.create(browser, { width: 1440, height: 900 });
  await operator.page.goto(`${server.url}/observatory`);
  await operator.until<string>("state", (state) => state === "open", "the channel opens");
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** By name, so that no other row comes between. */
async function pick(name: string): Promise<void> {
  await operator.page.getByTestId("tab-observers").click();
  await operator.page.getByTestId("find").fill(name);
  await operator.page.getByTestId("observers").locator("tbody tr", { hasText: name }).first().click();
  await operator.page.getByTestId("picked").getByText(name, { exact: true }).waitFor();
  await operator.page.getByTestId("find").fill("");
}

interface Drawn {
  truth: number;
  ghosts: number;
  sectors: number;
}

interface Observed {
  player: number;
  bytes_s: number;
  link_bytes_s: number;
}

interface Figures {
  bytes_s: number;
  broadcast: { samples: number; bytes_s: number; ratio: number | null } | null;
  observers: Observed[];
}

test("all players are on the map and in the table", async () => {
  await operator.until<Drawn>("drawn", (drawn) => drawn.truth > 60, "all avatars are drawn");
  await operator.page.getByTestId("observers").getByText("olga").waitFor();
});

test("a picked observer has a fan and ghosts", async () => {
  await pick("olga");
  await operator.until<Drawn>("drawn", (drawn) => drawn.sectors > 4 && drawn.ghosts > 3, "fan and ghosts");
  assert.equal((await operator.fact<{ policy: string }>("view")).policy, "vfc");
  await operator.page.waitForTimeout(12_000);
  await operator.screenshot("observatory-light");
});

test("a view that cannot be used is answered in words, and the old one stays", async () => {
  const { page } = operator;
  await page.getByTestId("tab-view").click();
  await page.getByTestId("editor-zones-0").fill("90");
  await page.getByTestId("editor-zones-0").press("Tab");
  await page.getByTestId("editor-apply").click();
  await page.getByTestId("editor-error").waitFor({ state: "visible" });
  assert.match((await page.getByTestId("editor-error").textContent()) ?? "", /zones/);
  assert.equal((await operator.fact<{ policy: string }>("view")).policy, "vfc");
});

/** Mean bytes a second to the browser's player, over some seconds. */
async function meanBytes(seconds: number): Promise<number> {
  const id = await player.fact<number>("player");
  const seen: number[] = [];
  for (let i = 0; i < seconds; i += 1) {
    await operator.page.waitForTimeout(1_000);
    const figures = await operator.fact<Figures>("figures");
    seen.push(figures.observers.find((row) => row.player === id)?.bytes_s ?? 0);
  }
  return seen.reduce((sum, value) => sum + value, 0) / seen.length;
}

/** What the server measured of broadcasting, once it has. */
async function measured(): Promise<NonNullable<Figures["broadcast"]>> {
  const figures = await operator.until<Figures>("figures", (one) => one.broadcast !== null, "it is measured", SLOW);
  return figures.broadcast!;
}

async function choose(preset: string, policy: string): Promise<void> {
  await operator.page.getByTestId(`preset-${preset}`).click();
  await operator.until<{ policy: string }>("view", (view) => view.policy === policy, `${preset} is in force`, SLOW);
  await operator.page.waitForTimeout(2_500);
}

test("the editor switches normal, broadcast, A3, and bytes follow", async (t) => {
  await choose("normal", "vfc");
  const normal = await meanBytes(8);
  const told = await measured();
  assert.ok(told.samples === 3 && told.ratio! > 1, JSON.stringify(told));
  await choose("broadcast", "broadcast");
  const broadcast = await meanBytes(8);
  const same = await measured();
  assert.ok(Math.abs(same.ratio! - 1) < 0.03, `while broadcasting ${same.ratio} times less than broadcast`);
  await operator.screenshot("observatory-broadcast");
  await choose("a3", "a3");
  const a3 = await meanBytes(8);
  t.diagnostic(`bytes a second: normal ${normal.toFixed(0)}, broadcast ${broadcast.toFixed(0)}, A3 ${a3.toFixed(0)}`);
  assert.ok(broadcast > 1.5 * normal, `broadcast ${broadcast}, normal ${normal}`);
  assert.ok(a3 < broadcast / 1.5, `A3 ${a3}, broadcast ${broadcast}`);
});

test("a view for one changes that one alone; taken back, the game has its own", async () => {
  const { page } = operator;
  await page.getByTestId("editor-reset").click();
  await operator.until<{ policy: string }>("view", (view) => view.policy === "vfc", "the game has its own", SLOW);
  await page.getByTestId("editor-to-one").check();
  await choose("circle", "circle");
  await pick("bot-11");
  await operator.until<{ policy: string }>("view", (view) => view.policy === "vfc", "others are as before", SLOW);
  await pick("olga");
  await page.getByTestId("tab-view").click();
  await page.getByTestId("editor-to-one").check();
  await page.getByTestId("editor-reset").click();
  await operator.until<{ policy: string }>("view", (view) => view.policy === "vfc", "and this one, too", SLOW);
});

test("sliders disturb a link, and its player notices", async () => {
  const { page } = operator;
  await page.getByTestId("tab-network").click();
  const before = (await player.fact<{ rtt: number }>("stats")).rtt;
  await page.getByTestId("network-delay_ms").fill("100");
  await player.until<{ rtt: number }>("stats", (stats) => stats.rtt > before + 120, "the round trip is longer", SLOW);
  await page.getByTestId("network-clear").click();
  await player.until<{ rtt: number }>("stats", (stats) => stats.rtt < before + 80, "and short again", SLOW);
});

test("the page looks the same in the dark", async () => {
  const { page } = operator;
  await page.getByTestId("tab-view").click();
  await page.getByTestId("theme").click();
  await page.getByTestId("follow").click();
  await page.waitForTimeout(3_000);
  await operator.screenshot("observatory-dark");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  assert.deepEqual(operator.complaints, []);
});
