import assert from "node:assert/strict";
import { request } from "node:http";
import { connect as connectTcp } from "node:net";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Person } from "./browser.js";
import { Server } from "./server.js";

const TOKEN = "operator-token-of-the-tests";

let browser: Browser;
let server: Server;

before(async () => {
  server = await Server.start({ bots: 4, players: 16, seed: 7, token: TOKEN });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** The status of an attempt to open a WebSocket. */
async function upgrade(path: string, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((done, failed) => {
    const asked = request(`${server.url}${path}`, {
      headers: {
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        ...headers,
      },
    });
    asked.on("upgrade", (_answer, socket) => {
      socket.destroy();
      done(101);
    });
    asked.on("response", (answer) => {
      answer.resume();
      done(answer.statusCode ?? 0);
    });
    asked.on("error", failed);
    asked.end();
  });
}

test("a page from elsewhere may not connect", async () => {
  assert.equal(await upgrade("/play", { origin: "https://evil.example" }), 403);
  assert.equal(await upgrade("/play", { origin: server.url }), 101);
});

test("observing requires the operator’s token", async () => {
  assert.equal(await upgrade("/observe", { origin: server.url }), 401);
  assert.equal(await upgrade("/observe?token=wrong-wrong-wrong-wrong", { origin: server.url }), 403);
  assert.equal(await upgrade(`/observe?token=${TOKEN}`, { origin: server.url }), 101);
});

test("the observatory asks for the token, and opens with it", async () => {
  const operator = await Person.create(browser);
  const { page } = operator;
  await page.goto(`${server.url}/observatory`);
  await page.getByTestId("token").fill("wrong-wrong-wrong-wrong");
  await page.getByTestId("token-use").click();
  // The form comes back empty when the server has said no.
  await operator.until<string>("state", (state) => state === "refused", "a wrong token is refused");
  await page.getByTestId("token").fill(TOKEN);
  await page.getByTestId("token-use").click();
  await operator.until<string>("state", (state) => state === "open", "the channel opens");
  await page.reload();
  await operator.until<string>("state", (state) => state === "open", "the tab remembers");
  await operator.close();
});

test("malformed frames end their own link alone", async () => {
  const person = await Person.create(browser);
  await person.join(server.url, "mia");
  for (const bytes of [
    // Not masked; reserved bits; a length of 2^63.
    [0x82, 0x01, 0x00],
    [0xf2, 0x81, 0, 0, 0, 0, 0],
    [0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
    // A whole frame of neither sort, and a message that is none.
    [0x82, 0x82, 0, 0, 0, 0, 0x77, 0x77],
    [0x82, 0x83, 0, 0, 0, 0, 0x01, 0xff, 0xff],
  ]) {
    await raw(Uint8Array.from(bytes));
  }
  const { updates } = await person.fact<{ updates: number }>("stats");
  await person.until<{ updates: number }>("stats", (stats) => stats.updates > updates + 20, "others play on");
  await person.close();
});

/** Opens a WebSocket by hand, says something wrong, and waits for the end or a moment. */
async function raw(bytes: Uint8Array): Promise<void> {
  await new Promise<void>((done, failed) => {
    const socket = connectTcp(server.webPort, "127.0.0.1", () => {
      socket.write(
        `GET /play HTTP/1.1\r\nHost: 127.0.0.1:${server.webPort}\r\nOrigin: ${server.url}\r\nConnection: Upgrade\r\n` +
          "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
      );
      socket.write(bytes);
    });
    const timer = setTimeout(() => socket.destroy(), 1_500);
    socket.on("data", () => {});
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "ECONNRESET" && error.code !== "EPIPE") failed(error);
    });
    socket.on("close", () => {
      clearTimeout(timer);
      done();
    });
  });
}

test("two tabs with one name: the second is told why not, the first plays on", async () => {
  const first = await Person.create(browser);
  await first.join(server.url, "twin");
  const second = await Person.create(browser);
  await second.page.goto(server.url);
  await second.page.getByTestId("name").fill("twin");
  await second.page.getByTestId("join").click();
  await second.page.getByTestId("problem").waitFor({ state: "visible" });
  assert.match((await second.page.getByTestId("problem").textContent()) ?? "", /name/i);
  assert.equal(await first.fact("state"), "playing");
  await second.close();
  await first.close();
});

test("a tab that sleeps wakes up and plays on", async () => {
  const person = await Person.create(browser);
  await person.join(server.url, "nap");
  const session = await person.context.newCDPSession(person.page);
  // A frozen tab runs nothing at all; its link dies of silence at the server.
  await session.send("Page.setWebLifecycleState", { state: "frozen" });
  await new Promise((done) => setTimeout(done, 45_000));
  await session.send("Page.setWebLifecycleState", { state: "active" });
  await person.until<string>("state", (state) => state === "playing", "it plays again");
  const { updates } = await person.fact<{ updates: number }>("stats");
  await person.until<{ updates: number }>("stats", (stats) => stats.updates > updates + 20, "updates come");
  await person.close();
});

test("an invited player joins, by the address or by hand", async () => {
  const door = await Server.start({ bots: 2, players: 16, invited: true });
  const person = await Person.create(browser);
  await assert.rejects(person.join(door.url, "ada"), /asks for an invitation/);
  await person.page.getByTestId("invitation").fill(door.invitation("ada"));
  await person.page.getByTestId("join").click();
  await person.until<string>("state", (state) => state === "playing", "ada plays");
  await person.close();
  const guest = await Person.create(browser);
  await guest.page.goto(`${door.url}/#name=ben&invitation=${encodeURIComponent(door.invitation("ben"))}`);
  await guest.page.getByTestId("join").click();
  await guest.until<string>("state", (state) => state === "playing", "ben plays");
  await guest.close();
  await door.stop();
});
