import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Person } from "./browser.js";
import { Server } from "./server.js";
import { arena, far, type Own, type Place, walk } from "./walker.js";

interface Avatar extends Place {
  player: number;
  team: number;
  health: number;
}

interface Base extends Place {
  team: number;
  progress: number;
}

let browser: Browser;
let server: Server;
let ada: Person;

before(async () => {
  server = await Server.start({ bots: 10, players: 16, seed: 3 });
  browser = await launch();
  ada = await Person.create(browser);
  await ada.join(server.url, "ada");
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a player that joins has an avatar and sees others with their names", async () => {
  await ada.until<Avatar[]>("others", (others) => others.length > 3, "others are seen");
  await ada.until<{ avatars: number; bases: number }>("counts", (c) => c.bases > 0, "bases are seen");
  assert.deepEqual(ada.complaints, []);
});

test("keys move the avatar, and the server agrees with the prediction", async () => {
  const from = await ada.fact<Own>("own");
  const map = await arena(server.url);
  const goal = { x: map.side / 2, y: map.side / 2 };
  let correction = 0;
  await walk(
    ada,
    map,
    async () => goal,
    async (own) => {
      correction = Math.max(correction, (await ada.fact<{ correction: number }>("stats")).correction);
      return far(own, from) > 8;
    },
    180_000,
  );
  const own = await ada.fact<Own>("own");
  assert.ok(far(own, from) > 4, `moved by ${far(own, from)}`);
  // Half an avatar's width cannot be noticed. Other lanes, such as health, are never predicted.
  assert.ok(correction < 1, `corrected by ${correction}`);
});

test("a shot is shown at once, told of by the server, and hits", async () => {
  const { page } = ada;
  const map = await arena(server.url);
  const nearestEnemy = async (): Promise<Avatar | null> => {
    const own = await ada.fact<Own>("own");
    const others = await ada.fact<Avatar[]>("others");
    const enemies = others.filter((other) => other.team !== own.team && other.health > 0);
    return enemies.sort((a, b) => far(a, own) - far(b, own))[0] ?? null;
  };
  await page.mouse.move(640, 400);
  await page.mouse.down();
  const end = Date.now() + 300_000;
  const hits = async (): Promise<number> => (await ada.fact<{ hits: number }>("shots")).hits;
  while (Date.now() < end && (await hits()) === 0) {
    await walk(
      ada,
      map,
      async () => (await nearestEnemy()) ?? { x: map.side / 2, y: map.side / 2 },
      async (own) => {
        const enemy = await nearestEnemy();
        if (enemy) await aimAt(enemy);
        return (await hits()) > 0 || (enemy !== null && far(own, enemy) < 8);
      },
      8_000,
    );
    const enemy = await nearestEnemy();
    if (enemy) await aimAt(enemy);
  }
  await page.mouse.up();
  const shots = await ada.fact<{ shown: number; told: number; hits: number }>("shots");
  assert.ok(shots.shown > 0 && shots.told > 0 && shots.hits > 0, JSON.stringify(shots));

  async function aimAt(enemy: Place): Promise<void> {
    const camera = await ada.fact<{ x: number; y: number; scale: number }>("camera");
    const canvas = (await page.locator(".canvas canvas").boundingBox())!;
    await page.mouse.move(
      canvas.x + canvas.width / 2 + (enemy.x - camera.x) * camera.scale,
      canvas.y + canvas.height / 2 - (enemy.y - camera.y) * camera.scale,
    );
  }
});

test("another weapon and zoom are a key away", async () => {
  const { page } = ada;
  const before = (await ada.fact<{ scale: number }>("camera")).scale;
  await page.keyboard.press("Digit3");
  await page.keyboard.press("KeyZ");
  await ada.until<{ scale: number }>("camera", (camera) => camera.scale < before * 0.7, "zoomed out");
  await page.keyboard.press("KeyZ");
  await ada.until<{ scale: number }>("camera", (camera) => camera.scale > before * 0.9, "and back");
  assert.match((await page.getByTestId("weapon-lance").getAttribute("class")) ?? "", /held/);
});

test("a base is captured by standing on it", async () => {
  const map = await arena(server.url);
  const nearest = async (): Promise<Base> => {
    const own = await ada.fact<Own>("own");
    const bases = await ada.fact<Base[]>("bases");
    const open = bases.filter((base) => base.team !== own.team);
    return (open.length > 0 ? open : bases).sort((a, b) => far(a, own) - far(b, own))[0]!;
  };
  const own = await ada.fact<Own>("own");
  const progressOf = (base: Base): number => base.progress * (own.team === 2 ? 1 : -1);
  let most = -100;
  const captured = await walk(
    ada,
    map,
    nearest,
    async (here) => {
      const bases = await ada.fact<Base[]>("bases");
      const on = bases.find((base) => far(base, here) < 6);
      if (on) most = Math.max(most, progressOf(on));
      return on !== undefined && on.team === here.team;
    },
    300_000,
  );
  assert.ok(captured, `the most progress was ${most}`);
});

test("a unit goes where it is sent, and can be taken over", async () => {
  const { page } = ada;
  const units = await ada.until<Place[]>("units", (all) => all.length > 0, "there is a unit");
  await page.mouse.move(900, 250);
  await page.keyboard.press("KeyG");
  await ada.until<Place[]>("units", (all) => all.some((unit) => far(unit, units[0]!) > 2), "it goes");
  await page.keyboard.press("KeyT");
  await ada.until<number>("steered", (steered) => steered === 0, "it is taken over");
  await page.keyboard.press("KeyT");
});

test("a living player cannot watch others", async () => {
  const { page } = ada;
  assert.equal(await page.getByTestId("watch").isDisabled(), true);
  await page.keyboard.press("KeyV");
  await page.waitForTimeout(300);
  assert.equal(await ada.fact("watched"), null);
  assert.deepEqual(ada.complaints, []);
});

test("fingers play, too", async () => {
  const touched = await Person.create(browser, { width: 390, height: 844, touch: true, theme: "dark" });
  await touched.join(server.url, "tess");
  const { page } = touched;
  const from = await touched.fact<Own>("own");
  const stick = (await page.locator(".stick").first().boundingBox())!;
  const centre = { x: stick.x + stick.width / 2, y: stick.y + stick.height / 2 };
  const session = await touched.context.newCDPSession(page);
  const touch = (type: string, points: { x: number; y: number }[]): Promise<unknown> =>
    session.send("Input.dispatchTouchEvent", { type: type as "touchStart", touchPoints: points });
  await touch("touchStart", [centre]);
  for (const [dx, dy] of [
    [40, 0],
    [0, -40],
    [-40, 0],
    [0, 40],
  ] as const) {
    await touch("touchMove", [{ x: centre.x + dx, y: centre.y + dy }]);
    await page.waitForTimeout(900);
    if (far(await touched.fact<Own>("own"), from) > 2) break;
  }
  await touch("touchEnd", []);
  assert.ok(far(await touched.fact<Own>("own"), from) > 1);
  await touched.screenshot("play-phone");
  await touched.close();
});
