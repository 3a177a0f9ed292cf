/**
 * Records the observatory as an animated picture: the real server, 60 bots, one of them picked.
 *
 * Frames are shown for as long as they took to come, so that the picture runs at the world's speed
 * whatever the machine. Needs `img2webp` (Debian: package `webp`).
 */

import { execFileSync } from "node:child_process";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, Person } from "./browser.js";
import { Server } from "./server.js";

const ROOT = resolve(fileURLToPath(import.meta.url), "../../../..");
const OUT = join(ROOT, "docs", "images", "observatory.webp");
const FRAMES = join(ROOT, "target", "recording");
/** How long the picture runs, and how far frames are apart at least, in milliseconds. */
const [LENGTH, APART] = [8_000, 140];
/** What a README may weigh. */
const MAX_BYTES = 2_000_000;

const server = await Server.start({ bots: 60, players: 64, seed: 1 });
const browser = await launch();
const frames: { file: string; at: number }[] = [];
try {
  const operator = await Person.create(browser, { theme: "dark", width: 1440, height: 810 });
  await operator.page.goto(`${server.url}/observatory`);
  await operator.until<string>("state", (state) => state === "open", "the channel opens");
  await operator.page.getByTestId("tab-observers").click();
  await operator.page.getByTestId("observers").locator("tbody tr").nth(2).locator("td").first().click();
  // Until the figures have something to show.
  await operator.page.waitForTimeout(8_000);
  await rm(FRAMES, { recursive: true, force: true });
  await mkdir(FRAMES, { recursive: true });
  // Frames as the browser draws them: a screenshot would make it draw once more for each.
  const session = await operator.context.newCDPSession(operator.page);
  const done = new Promise<void>((resolve, reject) => {
    let begun = 0;
    session.on("Page.screencastFrame", ({ data, sessionId }) => {
      const now = Date.now();
      begun ||= now;
      const at = now - begun;
      if (at >= LENGTH) resolve();
      else if (at - (frames.at(-1)?.at ?? -APART) >= APART) {
        const file = join(FRAMES, `${String(frames.length).padStart(3, "0")}.png`);
        frames.push({ file, at });
        writeFile(file, Buffer.from(data, "base64")).catch(reject);
      }
      session.send("Page.screencastFrameAck", { sessionId }).catch(reject);
    });
  });
  await session.send("Page.startScreencast", { format: "png", everyNthFrame: 1 });
  await done;
  await session.send("Page.stopScreencast");
  if (operator.complaints.length > 0) throw new Error(operator.complaints.join("\n"));
} finally {
  await browser.close();
  await server.stop();
}

const shown = frames.flatMap(({ file, at }, nth) => {
  const next = frames[nth + 1]?.at ?? LENGTH;
  return ["-d", String(Math.max(next - at, 20)), file];
});
execFileSync("img2webp", ["-loop", "0", "-lossy", "-q", "50", "-m", "6", ...shown, "-o", OUT]);
const { size } = await stat(OUT);
console.log(`${OUT}: ${frames.length} frames, ${size} bytes`);
if (size > MAX_BYTES) throw new Error(`more than ${MAX_BYTES} bytes: fewer frames, or a smaller window`);
