/**
 * Chooses the transport: WebTransport first, and WebSocket if that fails. A failure is remembered for the page's
 * session, but only once the other transport has worked: with an unreachable server both fail.
 */
import { ConnectError } from "../client/errors.js";
import type { TransportChoice } from "../client/types.js";
import type { Contact } from "../session/messages.js";
import type { Transport } from "./transport.js";
import { openWebSocket } from "./websocket.js";
import { openWebTransport } from "./webtransport.js";

/** How long WebTransport may take to open, in milliseconds. */
const WEBTRANSPORT_LIMIT = 2_500;
/** How long WebSocket may take to open, in milliseconds. */
const WEBSOCKET_LIMIT = 8_000;
/** How long a document of the server may take, in milliseconds. */
const FETCH_LIMIT = 8_000;

/** The contents of `/connect.json`. */
interface Offer {
  /** `hash`: of a certificate without a known authority. `host`: the server's address, if it listens on only one. */
  webtransport?: { port: number; hash: string | null; host?: string | null };
  websocket?: boolean;
}

/** A server's addresses by transport. */
interface Ways {
  readonly webTransport: readonly string[];
  readonly webSocket: readonly string[];
  readonly hash: Uint8Array | null;
}

/** Opens links to servers. */
export interface Links {
  /** Opens a link to a server that another server named, or to the page's; rejects with `ConnectError`. */
  open(contact?: Contact): Promise<Transport>;
  /** Records that WebTransport connects without anything arriving: the next link uses WebSocket. */
  distrust(): void;
}

/** Opens links to the servers of a page's world. A network that allows WebTransport to one of them allows it to all. */
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

  async open(contact?: Contact): Promise<Transport> {
    const ways = contact === undefined ? await this.offered() : waysTo(contact);
    const wanted = this.choice === "webtransport" || (this.choice === "auto" && !remembers(this.key));
    let failed: unknown = null;
    if (wanted && "WebTransport" in globalThis) {
      for (const url of ways.webTransport) {
        try {
          return await openWebTransport(url, ways.hash, WEBTRANSPORT_LIMIT);
        } catch (error) {
          failed = error;
        }
      }
    }
    if (this.choice === "webtransport") {
      throw new ConnectError(`no WebTransport: ${failed === null ? "the server does not offer it, or this browser does not support it" : String(failed)}`);
    }
    if (!("WebSocket" in globalThis)) throw new ConnectError("this environment has no WebSocket");
    const transport = await firstWebSocket(ways.webSocket);
    if (failed !== null) this.distrust();
    return transport;
  }

  /** The addresses of the page's server. They are fetched each time, since its certificate changes. */
  private async offered(): Promise<Ways> {
    const offer = (await fetchJson(new URL("/connect.json", this.base))) as Offer;
    const base = new URL(this.base);
    const { webtransport } = offer;
    // A development server listens only on 127.0.0.1, while browsers try ::1 for localhost.
    const host = webtransport?.host ?? base.hostname;
    const hash = webtransport?.hash ?? null;
    const socket = new URL("/play", base);
    socket.protocol = base.protocol === "https:" ? "wss:" : "ws:";
    return {
      webTransport: webtransport === undefined ? [] : [`https://${host}:${webtransport.port}/play`],
      webSocket: offer.websocket === true ? [socket.href] : [],
      hash: hash === null ? null : Uint8Array.from(hash.match(/../g) ?? [], (byte) => parseInt(byte, 16)),
    };
  }
}

/** The addresses in a contact: section 10.1 of `docs/WIRE.md`. */
export function waysTo({ addresses, certificate }: Contact): Ways {
  const isSocket = (address: string): boolean => /^wss?:\/\//.test(address);
  return {
    webTransport: addresses.filter((address) => !address.includes("://")).map((address) => `https://${address}/play`),
    webSocket: addresses.filter(isSocket).map((address) => `${address}/play`),
    hash: certificate,
  };
}

async function firstWebSocket(urls: readonly string[]): Promise<Transport> {
  let failed = "the server offers no WebSocket";
  for (const url of urls) {
    try {
      return await openWebSocket(url, WEBSOCKET_LIMIT);
    } catch (error) {
      failed = `no link to ${url}: ${String(error)}`;
    }
  }
  throw new ConnectError(failed);
}

/** Fetches a text from the server. */
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
    // Not JSON: reported below.
  }
  throw new ConnectError(`${url.pathname} of ${url.host} is not what a server offers`);
}

const failed = new Set<string>();

function remember(key: string): void {
  failed.add(key);
  try {
    sessionStorage.setItem(key, "1");
  } catch {
    // There is no storage, or it is full: only this page remembers.
  }
}

function remembers(key: string): boolean {
  try {
    return failed.has(key) || sessionStorage.getItem(key) !== null;
  } catch {
    return failed.has(key);
  }
}
