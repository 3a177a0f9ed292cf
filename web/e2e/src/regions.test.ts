import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Person } from "./browser.js";
import { Server } from "./server.js";
import { arena, far, type Own, type Place, walk } from "./walker.js";

/** Borders that the player crosses. */
const CROSSINGS = Number(process.env.FOVEATE_CROSSINGS ?? 10);
/** A busy machine may take this long to walk them all, in milliseconds. */
const SLOW = 900_000;
/** Nothing in the arena is quicker, in units a second; and pictures may be drawn so much later than they are of, in ms. */
const FASTEST = 10;
const UNEVEN = 150;
/** A jump below this is not visible: half an avatar's width, in units. */
const SLACK = 1;
/** So long after a crossing a jump may come of it, in milliseconds; and others are looked at within so many units. */
const AFTER = 1_000;
const NEAR = 40;

interface Stats {
  moves: number;
  breaks: number;
  foreseen: number;
  corrected: number;
}

/** What was drawn between two looks, beyond what the time between them explains. */
interface Jumps {
  /** The avatar, at most. */
  own: number;
  /** Looks at others near by, and how many of them jumped: far from crossings and after them. */
  others: { looks: number; jumped: number }[];
  /** How far the avatar was corrected, each time that it was. */
  corrections: number[];
  looks: number;
}

let browser: Browser;
let server: Server;

before(async () => {
  server = await Server.start({ bots: 20, players: 32, seed: 3, regions: 4 });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Looks at every picture that the page draws. */
async function watch(person: Person): Promise<void> {
  await person.page.evaluate(
    ([fastest, uneven, slack, after, near]) => {
      type Drawn = { x: number; y: number; player?: number; health: number };
      type Page = {
        foveate?: { own: Drawn | null; others: Drawn[]; stats: { corrected: number; correction: number; moves: number } | null };
        jumps?: Jumps;
      };
      const page = window as unknown as Page;
      const others = [0, 1].map(() => ({ looks: 0, jumped: 0 }));
      const jumps: Jumps = { own: 0, others, corrections: [], looks: 0 };
      page.jumps = jumps;
      let before = new Map<number, Drawn>();
      let then = performance.now();
      let moves = page.foveate?.stats?.moves ?? 0;
      let crossed = -Infinity;
      let corrected = page.foveate?.stats?.corrected ?? 0;
      const look = (): void => {
        const now = performance.now();
        const { own, others, stats } = page.foveate ?? { own: null, others: [], stats: null };
        if (stats !== null && stats.moves !== moves) [moves, crossed] = [stats.moves, now];
        const explained = (fastest! * (now - then + uneven!)) / 1000 + slack!;
        const drawn = new Map(others.map((other) => [other.player!, other]));
        if (own !== null) drawn.set(-1, own);
        for (const [player, is] of drawn) {
          const was = before.get(player);
          // A dead avatar respawns elsewhere.
          if (was === undefined || was.health <= 0 || is.health <= 0 || is.health > was.health) continue;
          const beyond = Math.hypot(is.x - was.x, is.y - was.y) - explained;
          if (player === -1) {
            jumps.own = Math.max(jumps.own, beyond);
          } else if (own !== null && Math.hypot(is.x - own.x, is.y - own.y) < near!) {
            const counted = jumps.others[now - crossed < after! ? 1 : 0]!;
            counted.looks++;
            counted.jumped += beyond > 0 ? 1 : 0;
          }
        }
        if (stats !== null && stats.corrected !== corrected) {
          jumps.corrections.push(stats.correction);
          corrected = stats.corrected;
        }
        jumps.looks++;
        [before, then] = [drawn, now];
        requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    },
    [FASTEST, UNEVEN, SLACK, AFTER, NEAR],
  );
}

const jumpsOf = (person: Person): Promise<Jumps> =>
  person.page.evaluate(() => (window as unknown as { jumps: Jumps }).jumps);

test("a browser player crosses borders, and nothing on the screen jumps", { timeout: SLOW + 120_000 }, async () => {
  // Small: without a graphics card every pixel costs.
  const ada = await Person.create(browser, { width: 480, height: 320 });
  await ada.join(server.url, "ada");
  const map = await arena(server.url);
  const [low, high] = [map.side * 0.25, map.side * 0.75];
  const corners: Place[] = [
    { x: low, y: low },
    { x: high, y: low },
    { x: high, y: high },
    { x: low, y: high },
  ];
  await watch(ada);
  const before = await ada.fact<Stats>("stats");
  const moved = async (): Promise<number> => (await ada.fact<Stats>("stats")).moves - before.moves;
  const end = Date.now() + SLOW;
  for (let nth = 0; Date.now() < end && (await moved()) < CROSSINGS; nth++) {
    const goal = corners[nth % corners.length]!;
    const isThere = async (own: Own): Promise<boolean> => far(own, goal) < 8 || (await moved()) >= CROSSINGS;
    await walk(ada, map, async () => goal, isThere, 120_000);
  }
  const [stats, jumps] = [await ada.fact<Stats>("stats"), await jumpsOf(ada)];
  const { corrections, ...drawn } = jumps;
  const states = stats.foreseen - before.foreseen + stats.corrected - before.corrected;
  // Over all states of the avatar, those that were foreseen included.
  const all = [...corrections, ...Array.from({ length: Math.max(states - corrections.length, 0) }, () => 0)];
  const p95 = all.sort((a, b) => a - b)[Math.floor(all.length * 0.95)] ?? 0;
  console.log(JSON.stringify({ moves: await moved(), breaks: stats.breaks, states, corrected: corrections.length, p95, ...drawn }));
  assert.ok((await moved()) >= CROSSINGS, `${await moved()} borders`);
  assert.equal(stats.breaks, before.breaks, "the link never broke");
  assert.equal(p95, 0, "its own movement is as foreseen");
  assert.ok(jumps.own <= 0, `its avatar jumped by ${jumps.own}`);
  // Others jump where they come back to life; no more of them do after a crossing than elsewhere.
  const [elsewhere, crossing] = [jumps.others[0]!, jumps.others[1]!];
  const usual = (elsewhere.jumped / Math.max(elsewhere.looks, 1)) * crossing.looks;
  assert.ok(crossing.jumped <= 2 * usual + 2, JSON.stringify(jumps.others));
  assert.deepEqual(ada.complaints, []);
  await ada.close();
});

test("an operator sees regions and servers, and drains one", { timeout: SLOW }, async () => {
  const operator = await Person.create(browser, { width: 1440, height: 900, theme: "dark" });
  const { page } = operator;
  await page.goto(`${server.url}/observatory`);
  await operator.until<string>("state", (state) => state === "open", "the channel opens");
  await operator.until<{ regions: number }>("drawn", (drawn) => drawn.regions === 4, "four regions are drawn");
  await operator.until<{ truth: number }>("drawn", (drawn) => drawn.truth > 20, "avatars of all regions are drawn");
  await page.getByTestId("tab-regions").click();
  const rows = page.getByTestId("servers").locator("tbody tr");
  await page.waitForTimeout(4_000);
  assert.equal(await rows.count(), 4);
  await operator.screenshot("observatory-regions");
  await rows.nth(3).click();
  await page.getByTestId("drain").click();
  await rows.filter({ hasText: "draining" }).waitFor();
  const owners = async (): Promise<number> => {
    const cells = await page.getByTestId("regions").locator("tbody tr td:nth-child(2)").allTextContents();
    return new Set(cells).size;
  };
  const end = Date.now() + 60_000;
  while ((await owners()) > 3 && Date.now() < end) await page.waitForTimeout(200);
  assert.equal(await owners(), 3, "the other three have its region");
  await operator.close();
});
