import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Person } from "./browser.js";
import { Server } from "./server.js";

let browser: Browser;
let server: Server;

before(async () => {
  server = await Server.start({ bots: 40, players: 48, seed: 1 });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

for (const theme of ["light", "dark"] as const) {
  test(`the game looks good in the ${theme}`, async () => {
    const person = await Person.create(browser, { theme });
    await person.join(server.url, `lea-${theme}`);
    const { page } = person;
    await page.mouse.move(860, 260);
    await person.until<{ avatars: number }>("counts", (counts) => counts.avatars > 5, "others are near");
    // For the picture in the documentation something should happen.
    if (process.env.FOVEATE_IMAGES) await page.waitForTimeout(4_000);
    await person.screenshot(`play-${theme}`);
    assert.deepEqual(person.complaints, []);
    await person.close();
  });
}

test("on a phone nothing hangs over the edge or lies on a button", async () => {
  for (const width of [320, 390]) {
    const person = await Person.create(browser, { width, height: 844, touch: true });
    const { page } = person;
    await page.goto(server.url);
    const card = await page.locator(".join").boundingBox();
    assert.ok(card !== null && card.x + card.width <= width, `the card ends at ${card?.x} + ${card?.width} of ${width}`);
    await page.goto(`${server.url}/observatory`);
    const tools = await page.locator(".tools").boundingBox();
    const legend = await page.getByTestId("legend").boundingBox();
    assert.ok(tools !== null && legend !== null && legend.y + legend.height <= tools.y, "the legend is above the buttons");
    await person.close();
  }
});

test("nothing is fetched from elsewhere", async () => {
  const person = await Person.create(browser);
  const hosts = new Set<string>();
  person.page.on("request", (request) => hosts.add(new URL(request.url()).host));
  const { page } = person;
  await page.goto(server.url);
  await page.getByTestId("join-screen").waitFor();
  await page.goto(`${server.url}/observatory`);
  await person.until<number>("received", (bytes) => bytes > 0, "the observatory shows something");
  await page.goto(`${server.url}/lab`);
  await person.until<number>("reports", (count) => count >= 0, "the list of reports has come");
  assert.deepEqual([...hosts], [new URL(server.url).host]);
  await person.close();
});

test("the laboratory explains itself, and shows the rows of a file", async () => {
  const person = await Person.create(browser);
  const { page } = person;
  await page.goto(`${server.url}/lab`);
  await page.getByTestId("reports").waitFor({ state: "attached" });
  const rows = [25, 50, 100, 200].flatMap((avatars) => [
    { policy: "a3", avatars, mean_bps: avatars * 31 },
    { policy: "none", avatars, mean_bps: avatars * 400 },
  ]);
  await page.getByTestId("lab-file").setInputFiles({
    name: "a3.json",
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify({ experiment: "a3", seed: 1, rows })),
  });
  const table = page.getByTestId("rows");
  await table.waitFor();
  assert.equal(await table.locator("tbody tr").count(), 8);
  await table.getByRole("button", { name: "mean_bps" }).click();
  assert.match((await table.locator("tbody tr").first().textContent()) ?? "", /80000/);
  await person.screenshot("lab");
  await page.getByTestId("lab-file").setInputFiles({
    name: "wrong.json",
    mimeType: "application/json",
    buffer: Buffer.from("[]"),
  });
  await page.getByRole("alert").waitFor();
  await person.close();
});

test("a file that is opened before the list of reports has come stays open", async () => {
  const person = await Person.create(browser);
  const { page } = person;
  let answer = (): void => undefined;
  const opened = new Promise<void>((resolve) => (answer = resolve));
  await page.route("**/reports/index.json", async (route) => {
    await opened;
    await route.continue();
  });
  await page.goto(`${server.url}/lab`);
  await page.getByTestId("lab-file").setInputFiles({
    name: "early.json",
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify({ experiment: "early", seed: 1, rows: [{ policy: "a3", bytes: 7 }] })),
  });
  await page.getByTestId("rows").waitFor();
  answer();
  await person.until<string>("page", (name) => name === "lab", "the list has come");
  assert.equal(await page.getByTestId("rows").count(), 1);
  assert.equal(await page.getByTestId("lab-empty").count(), 0);
  await person.close();
});

test("the bar leads to all three pages, by keyboard, too", async () => {
  const person = await Person.create(browser);
  const { page } = person;
  await page.goto(server.url);
  await page.getByTestId("nav-lab").focus();
  await page.keyboard.press("Enter");
  await person.until<string>("page", (name) => name === "lab", "the lab opens");
  await page.goBack();
  await person.until<string>("page", (name) => name === "play", "and play again");
  await person.close();
});

test("a user who leaves while the arena loads stays on the other page", async () => {
  const person = await Person.create(browser);
  const { page } = person;
  let answer = (): void => undefined;
  const asked = new Promise<void>((resolve) => (answer = resolve));
  await page.route("**/arena.json", async (route) => {
    await asked;
    await route.continue();
  });
  await page.goto(server.url);
  await page.getByTestId("nav-lab").focus();
  await page.keyboard.press("Enter");
  await person.until<string>("page", (name) => name === "lab", "the lab opens");
  const loaded = page.waitForResponse("**/arena.json");
  answer();
  await (await loaded).finished();
  await page.waitForTimeout(1_000);
  assert.equal(await page.getByTestId("join-screen").count(), 0);
  assert.equal(await page.getByTestId("play-canvas").count(), 0);
  assert.equal(await person.fact<string>("page"), "lab");
  await person.close();
});

test("the arena, once loaded, does not take the keyboard focus", async () => {
  const person = await Person.create(browser);
  const { page } = person;
  await page.goto(server.url);
  await page.getByTestId("nav-lab").focus();
  await page.getByTestId("join-screen").waitFor();
  await page.keyboard.press("Enter");
  await person.until<string>("page", (name) => name === "lab", "the lab opens");
  await person.close();
});
