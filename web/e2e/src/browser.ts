/** A headless Chromium that talks to this machine alone. */

import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { extname, join, resolve } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { IMAGES } from "./server.js";

const USUAL = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/usr/bin/google-chrome-stable",
];

export async function launch(): Promise<Browser> {
  const executablePath = process.env.CHROMIUM ?? USUAL.find((path) => existsSync(path));
  if (!executablePath) throw new Error("no Chromium: say where it is in CHROMIUM");
  return chromium.launch({
    executablePath,
    headless: true,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--enable-unsafe-swiftshader",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      // A page that a test hands over has no address, and Chromium would not let it talk to this machine.
      ...(process.env.FOVEATE_PAGE ? ["--disable-features=LocalNetworkAccessChecks"] : []),
      "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost , EXCLUDE 127.0.0.1",
    ],
  });
}

/** Only a hang takes this long, in milliseconds. */
export const PATIENCE = 120_000;

export interface Look {
  theme?: "light" | "dark";
  width?: number;
  height?: number;
  touch?: boolean;
}

/** A person with a browser of their own: nothing is shared with others. */
export class Person {
  /** What the page complained of. */
  readonly complaints: string[] = [];

  private constructor(
    readonly context: BrowserContext,
    readonly page: Page,
  ) {}

  static async create(browser: Browser, look: Look = {}): Promise<Person> {
    const touch = look.touch ?? false;
    const context = await browser.newContext({
      viewport: { width: look.width ?? 1280, height: look.height ?? 800 },
      colorScheme: look.theme ?? "light",
      hasTouch: touch,
      isMobile: touch,
    });
    context.setDefaultTimeout(PATIENCE);
    // What runs these tests marks functions by this helper, those that are handed to the page, too.
    await context.addInitScript("globalThis.__name = (it) => it;");
    const page = await context.newPage();
    const person = new Person(context, page);
    page.on("pageerror", (error) => person.complaints.push(error.message));
    await servePage(context);
    return person;
  }

  /** What the page shows of itself in `window.foveate`. */
  async fact<T>(name: string): Promise<T> {
    return this.page.evaluate((key) => {
      const facts = (window as unknown as { foveate?: Record<string, unknown> }).foveate;
      return (facts?.[key] ?? null) as unknown;
    }, name) as Promise<T>;
  }

  /** Waits until a fact is as it should be, and returns it. */
  async until<T>(name: string, isRight: (fact: T) => boolean, what: string, ms = PATIENCE): Promise<T> {
    const end = Date.now() + ms;
    for (;;) {
      const fact = await this.fact<T>(name);
      if (fact !== null && isRight(fact)) return fact;
      if (Date.now() > end) throw new Error(`${what}: not within ${ms} ms; ${name} is ${JSON.stringify(fact)}`);
      await this.page.waitForTimeout(100);
    }
  }

  async join(url: string, name: string): Promise<void> {
    await this.page.goto(url);
    await this.page.getByTestId("name").fill(name);
    await this.page.getByTestId("join").click();
    const problem = this.page.getByTestId("problem");
    const refused = problem.waitFor({ state: "visible", timeout: PATIENCE }).then(
      async () => Promise.reject(new Error(`${name} does not join: ${await problem.textContent()}`)),
      // It never was: good.
      () => undefined,
    );
    await Promise.race([this.until<string>("state", (state) => state === "playing", `${name} joins`), refused]);
    await this.until<unknown>("own", (own) => own !== null, `${name} has an avatar`);
  }

  async screenshot(name: string): Promise<void> {
    await mkdir(IMAGES, { recursive: true });
    await this.page.screenshot({ path: join(IMAGES, `${name}.png`) });
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}

const TYPES: Record<string, string> = {
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".html": "text/html",
};

/** For work on the page: files of `FOVEATE_PAGE` in place of those that the program carries. */
async function servePage(context: BrowserContext): Promise<void> {
  const folder = process.env.FOVEATE_PAGE;
  if (!folder) return;
  const root = resolve(folder);
  await context.route(/\/(assets\/.*|favicon\.svg|observatory|lab)?(\?.*)?$/, async (route) => {
    const path = new URL(route.request().url()).pathname;
    const file = extname(path) === "" ? join(root, "index.html") : join(root, path);
    const body = await readFile(file);
    await route.fulfill({ body, contentType: TYPES[extname(file)] ?? "application/octet-stream" });
  });
}
