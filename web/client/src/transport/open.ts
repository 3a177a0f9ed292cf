/**
 * Which transport: WebTransport first, WebSocket where that does not work. What failed is remembered for the page's
 * session, but only once the other way has worked: a server that is away fails both ways.
 */
import { ConnectError } from "../client/errors.js";
import type { TransportChoice } from "../client/types.js";
import type { Transport } from "./transport.js";
import { openWebSocket } from "./websocket.js";
import { openWebTransport } from "./webtransport.js";

/** How long WebTransport may take to stand, in milliseconds, */
const WEBTRANSPORT_LIMIT = 2_500;
/** and WebSocket. */
const WEBSOCKET_LIMIT = 8_000;
/** How long a document of the server may take. */
const FETCH_LIMIT = 8_000;

/** What `/connect.json` says. */
interface Offer {
  /** `host`: where the server listens, if that is one address. */
  webtransport?: { port: number; hash: string; host?: string };
  websocket?: boolean;
}

/** Where links to a server come from. */
export interface Links {
  /** A new link; rejects with `ConnectError`. */
  open(): Promise<Transport>;
  /** WebTransport connected, but nothing comes through: another link goes the other way. */
  distrust(): void;
}

/** Makes links to one server. */
export class Opener implements Links {
  private readonly key: string;

  constructor(
    private readonly base: string,
    private readonly choice: TransportChoice,
  ) {
    this.key = `foveate: no WebTransport to ${new URL(base).host}`;
  }

  distrust(): void {
    remember(this.key);
  }

  /** The server's offer is asked for anew each time: its certificate changes. */
  async open(): Promise<Transport> {
    const offer = (await fetchJson(new URL("/connect.json", this.base))) as Offer;
    const wanted = this.choice === "webtransport" || (this.choice === "auto" && !remembers(this.key));
    let failed: unknown = null;
    if (wanted && offer.webtransport !== undefined && "WebTransport" in globalThis) {
      try {
        return await this.webTransport(offer.webtransport);
      } catch (error) {
        failed = error;
      }
    }
    if (this.choice === "webtransport") {
      throw new ConnectError(`no WebTransport: ${failed === null ? "it is not offered, or not known here" : String(failed)}`);
    }
    if (offer.websocket !== true) throw new ConnectError("the server offers no WebSocket");
    const transport = await this.webSocket();
    if (failed !== null) this.distrust();
    return transport;
  }

  private webTransport(offer: { port: number; hash: string; host?: string }): Promise<Transport> {
    const { port, hash } = offer;
    // A development server listens on 127.0.0.1 alone, while browsers try ::1 for localhost.
    const host = offer.host ?? new URL(this.base).hostname;
    const bytes = Uint8Array.from(hash.match(/../g) ?? [], (byte) => parseInt(byte, 16));
    return openWebTransport(`https://${host}:${port}/play`, bytes, WEBTRANSPORT_LIMIT);
  }

  private async webSocket(): Promise<Transport> {
    const url = new URL("/play", this.base);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (!("WebSocket" in globalThis)) throw new ConnectError("there is no WebSocket here");
    try {
      return await openWebSocket(url.href, WEBSOCKET_LIMIT);
    } catch (error) {
      throw new ConnectError(`no link to ${url.host}: ${String(error)}`);
    }
  }
}

/** A text that the server serves. */
export async function fetchText(url: URL): Promise<string> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(FETCH_LIMIT), cache: "no-store" });
    if (answer.ok) return await answer.text();
    throw new Error(`status ${answer.status}`);
  } catch (error) {
    throw new ConnectError(`${url.pathname} of ${url.host}: ${String(error)}`);
  }
}

async function fetchJson(url: URL): Promise<unknown> {
  const text = await fetchText(url);
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null) return found;
  } catch {
    // Not JSON: said below.
  }
  throw new ConnectError(`${url.pathname} of ${url.host} is not what a server offers`);
}

const failed = new Set<string>();

function remember(key: string): void {
  failed.add(key);
  try {
    sessionStorage.setItem(key, "1");
  } catch {
    // No storage here, or it is full: the page remembers alone.
  }
}

function remembers(key: string): boolean {
  try {
    return failed.has(key) || sessionStorage.getItem(key) !== null;
  } catch {
    return failed.has(key);
  }
}
