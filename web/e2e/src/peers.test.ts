/** A game without a server: a browser plays and looks on through a peer of this machine. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Person } from "./browser.js";
import { program } from "./server.js";
import { arena, far, type Own, type Place, walk } from "./walker.js";

/** What has not begun by then never will, in milliseconds. */
const START_MS = 120_000;
const PEERS = 6;

const running: ChildProcess[] = [];
let browser: Browser;
let ada: Person;
let url: string;

/** Starts the program and waits for what follows in the line that begins so. */
async function start(begin: string, ...arguments_: string[]): Promise<string> {
  const child = spawn(program(), arguments_, { stdio: ["ignore", "pipe", "inherit"] });
  running.push(child);
  return new Promise((up, failed) => {
    const timer = setTimeout(() => failed(new Error(`no line "${begin}" in time`)), START_MS);
    child.once("exit", (code) => failed(new Error(`${arguments_[0]} ended with ${code}`)));
    let said = "";
    child.stdout.on("data", (bytes: Buffer) => {
      said += bytes.toString();
      const line = said.split("\n").find((text) => text.startsWith(begin) && said.includes(`${text}\n`));
      if (line === undefined) return;
      clearTimeout(timer);
      up(line.slice(begin.length).trim());
    });
  });
}

before(async () => {
  const lobby = await start("listening on ", "lobby", "--listen", "127.0.0.1:0");
  const page = await start("pages on ", "peer", "--lobby", lobby, "--web", "127.0.0.1:0", "--players", "16");
  url = page.replace(/\/$/, "");
  // All others in one process, each with links of its own.
  const bots = spawn(program(), ["peer", "--lobby", lobby, "--bots", String(PEERS - 1), "--headless"], { stdio: "ignore" });
  running.push(bots);
  browser = await launch();
  ada = await Person.create(browser);
  await ada.join(url, "ada");
});

after(async () => {
  await browser?.close();
  running.reverse().forEach((child) => child.kill("SIGTERM"));
  await Promise.all(
    running.map((child) => child.exitCode ?? new Promise((ended) => child.once("exit", ended))),
  );
});

test("keys move the avatar of the peer, which agrees with the prediction", async () => {
  const from = await ada.fact<Own>("own");
  const map = await arena(url);
  let correction = 0;
  await walk(
    ada,
    map,
    async () => ({ x: map.side / 2, y: map.side / 2 }),
    async (own) => {
      correction = Math.max(correction, (await ada.fact<{ correction: number }>("stats")).correction);
      return far(own, from) > 8;
    },
    180_000,
  );
  const own = await ada.fact<Own>("own");
  assert.ok(far(own, from) > 4, `moved by ${far(own, from)}`);
  assert.ok(correction < 1, `corrected by ${correction}`);
});

test("the other peers are seen, and move", async () => {
  const map = await arena(url);
  // They fight about bases, mostly in the middle.
  const others = (): Promise<(Place & { player: number })[]> => ada.fact("others");
  await walk(ada, map, async () => ({ x: map.side / 2, y: map.side / 2 }), async () => (await others()).length > 0, 180_000);
  const [first] = await ada.until<(Place & { player: number })[]>("others", (all) => all.length > 0, "others are seen");
  assert.ok(first!.player > 100, "a player's number is its key's");
  await ada.until<(Place & { player: number })[]>(
    "others",
    (all) => all.some((it) => it.player !== first!.player || far(it, first!) > 1),
    "they move",
  );
  await ada.screenshot("play-peer");
  assert.deepEqual(ada.complaints, []);
});

test("an operator of this machine looks on at what the peer knows", async () => {
  const operator = await Person.create(browser);
  await operator.page.goto(`${url}/observatory`);
  await operator.page.getByText("ada").first().waitFor();
  assert.deepEqual(operator.complaints, []);
  await operator.close();
});

test("a window has one player at a time, and is free after that player left", async () => {
  const bob = await Person.create(browser);
  await assert.rejects(bob.join(url, "bob"));
  await ada.close();
  await bob.join(url, "bob");
  await bob.close();
});
