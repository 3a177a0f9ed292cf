/** Messages of client and server on the reliable stream. Section 10 of `docs/WIRE.md`. */
import { REFUSALS } from "../client/types.js";
import type { RefusalCode } from "../client/types.js";
import { ReadError, Reader, Writer, utf8 } from "./postcard.js";

/** The longest message, in bytes. */
export const MAX_MESSAGE = 16_384;
const RESUME_KEY = 16;
const TICKET = 16;
/** Most addresses of a server, and most bytes of each. */
const MAX_ADDRESSES = 4;
const MAX_ADDRESS = 128;
/** Bytes of a certificate's SHA-256. */
const CERTIFICATE_HASH = 32;
/**
 * From this version on, a server sends reliable events as messages; packets and frames are those of the version before.
 */
export const RELIABLE_EVENTS = 2;
/** From this version on a session can move from one server to another. */
export const MOVING_SESSIONS = 3;

/** How to reach a server. */
export interface Contact {
  /** `HOST:PORT` for WebTransport, `ws://…` or `wss://…` for WebSocket; best first. */
  readonly addresses: readonly string[];
  /** SHA-256 of the server's certificate; null for one that the browser trusts. */
  readonly certificate: Uint8Array | null;
}

/** A client's first message. */
export interface Hello {
  readonly versions: readonly number[];
  readonly schema: bigint;
  readonly name: string;
  readonly token: Uint8Array;
  /** The key of the session to resume. */
  readonly resume: Uint8Array | null;
}

export function hello(said: Hello): Uint8Array {
  const out = begin(0);
  out.bytesValue(Uint8Array.from(said.versions));
  out.u64(said.schema);
  out.text(said.name);
  out.bytesValue(said.token);
  out.option(said.resume, (key) => out.raw(key));
  return out.finish();
}

/** Requests another view. */
export function view(which: number): Uint8Array {
  const out = begin(1);
  out.u8(which);
  return out.finish();
}

/** Requests an action of an object; `seen` is the tick of the world that the player saw. */
export function ask(object: bigint, seen: number, action: (out: Writer) => void): Uint8Array {
  const out = begin(2);
  out.u64(object);
  action(out);
  out.u32(seen);
  return out.finish();
}

export function leave(): Uint8Array {
  return begin(3).finish();
}

/** Also looks from another player's avatar; null for only the own avatar. */
export function watch(object: bigint | null): Uint8Array {
  const out = begin(4);
  out.option(object, (id) => out.u64(id));
  return out.finish();
}

/** Asks for a player's name. */
export function who(player: number): Uint8Array {
  const out = begin(5);
  out.u32(player);
  return out.finish();
}

/** Replaces the hello at a server that another server named. */
export function enter(said: Pick<Hello, "versions" | "schema" | "name"> & { readonly ticket: Uint8Array }): Uint8Array {
  const out = begin(6);
  out.bytesValue(Uint8Array.from(said.versions));
  out.u64(said.schema);
  out.text(said.name);
  out.raw(said.ticket);
  return out.finish();
}

function begin(variant: number): Writer {
  const out = new Writer();
  out.u32(variant);
  return out;
}

/** A server's message. */
export type ServerMessage =
  | {
      readonly is: "welcome";
      readonly version: number;
      readonly player: number;
      readonly avatar: bigint;
      readonly tick: number;
      /** The length of a round, in microseconds. */
      readonly round: number;
      readonly resume: Uint8Array;
      /** Whether the session continues; otherwise everything that the client knew is void. */
      readonly resumed: boolean;
    }
  | { readonly is: "refused"; readonly why: RefusalCode; readonly text: string; readonly schema: string }
  | { readonly is: "name"; readonly player: number; readonly name: string }
  /** Reliable events, one after the other in postcard. */
  | { readonly is: "events"; readonly events: Uint8Array }
  /** Another server is responsible: connect there and enter. */
  | { readonly is: "redirect"; readonly contact: Contact; readonly ticket: Uint8Array }
  /** The session is about to move: connect there and enter, and stay here, too. */
  | { readonly is: "next"; readonly contact: Contact; readonly ticket: Uint8Array }
  /** The client is expected, or may be soon. */
  | { readonly is: "wait" }
  /** The server at this link hosts the session in this session epoch. */
  | { readonly is: "hosted"; readonly epoch: bigint }
  /** The server to try if this one is silent. */
  | { readonly is: "standby"; readonly contact: Contact | null };

/** Reads a message; all of its bytes must be used. Throws `ReadError`. */
export function readServerMessage(bytes: Uint8Array): ServerMessage {
  if (bytes.length > MAX_MESSAGE) throw new ReadError(`a message of ${bytes.length} bytes`);
  const r = new Reader(bytes);
  const message = serverMessage(r);
  if (r.left > 0) throw new ReadError("something follows a message");
  return message;
}

function serverMessage(r: Reader): ServerMessage {
  const variant = r.u32();
  switch (variant) {
    case 0: {
      const [version, player, avatar, tick, round] = [r.u8(), r.u32(), r.u64(), r.u32(), r.u53()];
      return { is: "welcome", version, player, avatar, tick, round, resume: r.raw(RESUME_KEY).slice(), resumed: r.bool() };
    }
    case 1: {
      const why = REFUSALS[r.u32()];
      if (why === undefined) throw new ReadError("an unknown refusal");
      return { is: "refused", why, text: r.text(), schema: r.text() };
    }
    case 2:
      return { is: "name", player: r.u32(), name: r.text() };
    case 3:
      return { is: "events", events: r.bytesValue().slice() };
    case 4:
      return { is: "redirect", contact: contact(r), ticket: r.raw(TICKET).slice() };
    case 5:
      return { is: "next", contact: contact(r), ticket: r.raw(TICKET).slice() };
    case 6:
      return { is: "wait" };
    case 7:
      return { is: "hosted", epoch: r.u64() };
    case 8:
      return { is: "standby", contact: r.option(() => contact(r)) };
    default:
      throw new ReadError(`an unknown message ${variant}`);
  }
}

function contact(r: Reader): Contact {
  const count = r.u32();
  if (count < 1 || count > MAX_ADDRESSES) throw new ReadError(`a contact of ${count} addresses`);
  const addresses = Array.from({ length: count }, () => {
    const bytes = r.bytesValue();
    if (bytes.length < 1 || bytes.length > MAX_ADDRESS) throw new ReadError(`an address of ${bytes.length} bytes`);
    return utf8(bytes);
  });
  const certificate = r.bytesValue().slice();
  if (certificate.length !== 0 && certificate.length !== CERTIFICATE_HASH) {
    throw new ReadError(`a hash of ${certificate.length} bytes`);
  }
  return { addresses, certificate: certificate.length === 0 ? null : certificate };
}
