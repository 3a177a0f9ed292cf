// Opens the echo server's page in headless Chromium and prints the results; fails if a check fails.
//
//   cargo build -p foveate-io --features web --example browser_echo
//   npm install --no-save playwright-core
//   node crates/foveate-io/examples/browser_echo/check.mjs target/debug/examples/browser_echo
//
// CHROMIUM is the path of the browser; the default is /usr/bin/chromium.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const server = spawn(process.argv[2], { stdio: ["ignore", "pipe", "inherit"] });
const lines = [];
const address = await new Promise((known) => {
  createInterface({ input: server.stdout }).on("line", (line) => (lines.push(line), known(line)));
});
const { port } = new URL(address);
const forged = `http://forged.example:${port}`;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    `--host-resolver-rules=MAP forged.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1`,
    `--unsafely-treat-insecure-origin-as-secure=${forged}`,
  ],
});
try {
  const page = await browser.newPage();
  await page.goto(address);
  await page.waitForFunction(() => document.title === "done", null, { timeout: 60_000 });
  const log = (await page.textContent("#log")).trim().split("\n");
  console.log(log.join("\n"));
  for (const [line, kind] of log.map((line, n) => [JSON.parse(line), ["WebTransport", "WebSocket"][n]])) {
    assert.equal(line.kind, kind);
    assert.ok(line.heard >= 190, `${line.heard} of 200 datagrams came back`);
    assert.equal(line.large, 60_000);
    assert.equal(line.byServer, "300 as you wish");
  }
  const byPage = () => lines.filter((line) => line.endsWith("closed by the peer: bye (7)")).length;
  for (let wait = 0; byPage() < 2 && wait < 100; wait++) await new Promise((next) => setTimeout(next, 50));
  assert.equal(byPage(), 2, lines.join("\n"));

  // A page of another site, although its name resolves to this machine.
  const stranger = await browser.newPage();
  await stranger.goto(`${forged}/#quiet`);
  const tries = await stranger.evaluate(async () => {
    const outcome = (open) => open().then(() => "open", () => "refused");
    return [await outcome(webTransport), await outcome(webSocket)];
  });
  assert.deepEqual(tries, ["refused", "refused"]);
  console.log("a forged origin is refused by both");
} finally {
  await browser.close();
  server.kill();
}
