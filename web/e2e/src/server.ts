/** A running `foveate serve`, or `foveate mesh`, with ports and a folder of its own. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = resolve(fileURLToPath(import.meta.url), "../../../..");
/** A server that is not up by then is not coming, in milliseconds. */
const START_MS = 120_000;

export interface ServerOptions {
  bots: number;
  /** For how many the world is made. */
  players: number;
  seed?: number;
  /** The token that operators need. */
  token?: string;
  observe?: boolean;
  /** Region servers, if there is more than one server. */
  regions?: number;
  /** Requires an invitation to join. */
  invited?: boolean;
}

export class Server {
  private process: ChildProcess | null = null;
  /** What it said on standard error, for a test that fails. */
  log = "";

  /** Its ports, once it runs: the system picks them, so that no other program can have them. */
  webPort = 0;
  gamePort = 0;

  private constructor(
    private readonly folder: string,
    private readonly options: ServerOptions,
  ) {}

  static async start(options: ServerOptions): Promise<Server> {
    const folder = await mkdtemp(join(tmpdir(), "foveate-e2e-"));
    const server = new Server(folder, options);
    await server.run();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.webPort}`;
  }

  /** An invitation for a player. */
  invitation(name: string): string {
    const asked = ["token", "--secret", join(this.folder, "secret"), "--name", name];
    return execFileSync(program(), asked, { encoding: "utf8" }).trim();
  }

  /** Ends it as an operator would. */
  async halt(): Promise<void> {
    const running = this.process;
    this.process = null;
    if (!running || running.exitCode !== null) return;
    const ended = new Promise((done) => running.once("exit", done));
    running.kill("SIGTERM");
    const timer = setTimeout(() => running.kill("SIGKILL"), START_MS);
    await ended;
    clearTimeout(timer);
  }

  /** The same world again, at the same ports. */
  async run(): Promise<void> {
    await this.configure(this.options);
    const { regions } = this.options;
    const topology = regions === undefined ? ["serve"] : ["mesh", "--regions", String(regions)];
    const child = spawn(program(), [...topology, "--config", join(this.folder, "server.toml")], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.process = child;
    child.stderr.on("data", (bytes: Buffer) => {
      this.log = (this.log + bytes.toString()).slice(-20_000);
    });
    await new Promise<void>((up, failed) => {
      const timer = setTimeout(() => failed(new Error(`not up in time:\n${this.log}`)), START_MS);
      child.once("exit", (code) => failed(new Error(`ended with ${code}:\n${this.log}`)));
      child.once("error", failed);
      let said = "";
      child.stdout.on("data", (bytes: Buffer) => {
        said += bytes.toString();
        const game = /^(?:server \d+ )?listening on \S+:(\d+)$/m.exec(said);
        const web = /^pages on http:\/\/\S+:(\d+)\/$/m.exec(said);
        if (!game || !web) return;
        [this.gamePort, this.webPort] = [Number(game[1]), Number(web[1])];
        clearTimeout(timer);
        up();
      });
    });
  }

  async stop(): Promise<void> {
    await this.halt();
    await rm(this.folder, { recursive: true, force: true });
  }

  private async configure(options: ServerOptions): Promise<void> {
    const { token } = options;
    if (token) await writeFile(join(this.folder, "operator.token"), token, { mode: 0o600 });
    if (options.invited) await writeFile(join(this.folder, "secret"), "s".repeat(32), { mode: 0o600 });
    const text = [
      "[server]",
      `listen = "127.0.0.1:${this.gamePort}"`,
      `max_clients = ${options.players}`,
      `max_clients_per_address = ${options.players}`,
      "[world]",
      `seed = ${options.seed ?? 1}`,
      `bots = ${options.bots}`,
      "[limits]",
      "handshakes_per_second = 1000",
      "[metrics]",
      "enabled = false",
      "[web]",
      "enabled = true",
      `listen = "127.0.0.1:${this.webPort}"`,
      "metrics = true",
      `observe = ${options.observe ?? true}`,
      token ? 'operator_token = "operator.token"' : "",
      options.invited ? '[tokens]\nsecret = "secret"' : "",
    ];
    await writeFile(join(this.folder, "server.toml"), `${text.join("\n")}\n`);
  }
}

export function program(): string {
  const built = ["release", "debug"].map((profile) => join(ROOT, "target", profile, "foveate"));
  const found = process.env.FOVEATE_BIN ?? built.find((path) => existsSync(path));
  if (!found) throw new Error("no program: build it, or say where it is in FOVEATE_BIN");
  return resolve(found);
}

/** Where screenshots go: a test leaves the documentation alone unless it is asked to update it. */
export const IMAGES = process.env.FOVEATE_IMAGES
  ? join(ROOT, "docs", "images")
  : join(ROOT, "target", "screenshots");
