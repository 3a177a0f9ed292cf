import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Person } from "./browser.js";
import { Server } from "./server.js";

let browser: Browser;
let server: Server;

before(async () => {
  server = await Server.start({ bots: 6, players: 16, seed: 5 });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

interface Counted {
  updates: number;
  refused: number;
  bytesDown: number;
}

/** Updates keep coming. */
async function playsOn(person: Person): Promise<void> {
  const { updates } = await person.fact<Counted>("stats");
  await person.until<Counted>("stats", (stats) => stats.updates > updates + 20, "updates come");
}

test("WebTransport is used where there is UDP", async () => {
  const person = await Person.create(browser);
  await person.join(server.url, "wanda");
  assert.equal(await person.fact("transport"), "webtransport");
  await playsOn(person);
  assert.match((await person.page.getByTestId("link").textContent()) ?? "", /WebTransport/);
  await person.close();
});

test("with UDP blocked the page falls back to WebSocket by itself and plays on", async () => {
  const person = await Person.create(browser);
  await person.context.route("**/connect.json", async (route) => {
    const answer = await route.fetch();
    const found = (await answer.json()) as { webtransport?: { port: number } };
    // No program listens there: packets are lost, as behind a firewall.
    if (found.webtransport) found.webtransport.port = 9;
    await route.fulfill({ response: answer, json: found });
  });
  await person.join(server.url, "willa");
  assert.equal(await person.fact("transport"), "websocket");
  await playsOn(person);
  await person.close();
});

test("a server that restarts is joined again", async () => {
  const person = await Person.create(browser);
  await person.join(server.url, "rita");
  await server.halt();
  await person.page.getByTestId("reconnecting").waitFor({ state: "visible" });
  await server.run();
  await person.until<string>("state", (state) => state === "playing", "it plays again");
  await person.page.getByTestId("reconnecting").waitFor({ state: "hidden" });
  await playsOn(person);
  assert.deepEqual(person.complaints, []);
  await person.close();
});
