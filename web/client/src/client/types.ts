/**
 * What a page sees of a client: options, the client itself, and what it tells.
 *
 * Ids are bigints: kind, origin and serial in 64 bits. Places are in world units, angles in radians, times in
 * milliseconds of the page's clock unless a name says otherwise.
 */
import type { Reader, Writer } from "../session/postcard.js";
import type { FieldValue } from "../wire/values.js";
import type { Schema } from "../wire/schema.js";

/** How a link is made: `auto` tries WebTransport and falls back to WebSocket by itself. */
export type TransportChoice = "auto" | "webtransport" | "websocket";

/** How replicas are shown. */
export type Show = "predict" | "interpolate";

/** What the client must know of a game. `Input`, `Action` and `Event` are the game's own types. */
export interface GameAdapter<Input = never, Action = never, Event = unknown> {
  /** The schema or its text; without it, the text is fetched from the server's `/schema.txt`. */
  readonly schema?: string | Schema;
  /** An input as the game's postcard bytes. */
  encodeInput?(input: Input): Uint8Array;
  /** Appends an action as the game's postcard bytes. */
  encodeAction?(action: Action, writer: Writer): void;
  /** Reads one event; throws `ReadError` (as the reader does) for bytes that are none. */
  decodeEvent?(reader: Reader): Event;
  /**
   * The game's own rule: one's avatar after an input. `state` is a copy of its lanes, which may be changed in
   * place and returned. Without a rule the avatar is shown like all others.
   */
  predict?(state: Int32Array, input: Input, tick: number): Int32Array;
}

/** How to join. */
export interface ConnectOptions<Input = never, Action = never, Event = unknown> {
  /** The address of the server's page, e.g. `location.href`; `/connect.json` and `/schema.txt` lie beside it. */
  readonly base: string;
  readonly name: string;
  /** A connect token, where the server asks for one. */
  readonly token?: Uint8Array;
  readonly game: GameAdapter<Input, Action, Event>;
  readonly transport?: TransportChoice;
  /** How replicas are shown; `predict` unless told. */
  readonly show?: Show;
}

/** How far a client has come. */
export type ClientState = "joining" | "playing" | "reconnecting" | "refused" | "closed";

/**
 * How far a replica may be relied on: `live` as told whenever it matters, `lingering` while the server is silent, `frozen`
 * out of the view, as it was when it left.
 */
export type Liveness = "live" | "lingering" | "frozen";

/** A replica, as it is known. Valid until the next packet: copy what is to be kept. */
export interface ObjectView {
  readonly id: bigint;
  /** Its kind's number in the schema. */
  readonly kind: number;
  readonly alias: number;
  /** The newest state that arrived; read only. */
  readonly lanes: Int32Array;
  /** The tick of that state. */
  readonly tick: number;
  /** Out of interest: as it was, nothing more is known. */
  readonly frozen: boolean;
}

/** Where a replica is drawn. One such thing can be used again and again. */
export interface Sample {
  /** x, y, z in world units; z is 0 in two dimensions. */
  readonly place: [number, number, number];
  yaw: number;
  pitch: number;
  /** How long ago the newest state was the truth, in milliseconds. */
  staleness: number;
  /** How far smoothing puts it from the replica itself, in world units. */
  shownError: number;
  frozen: boolean;
  /** It has just jumped: draw no line from where it was. */
  jumped: boolean;
}

/** One's own avatar: predicted to the newest input, and smooth. */
export interface OwnView {
  /** The predicted state; read only. */
  readonly lanes: Int32Array;
  readonly place: readonly [number, number, number];
  readonly yaw: number;
  readonly pitch: number;
  /** How far it is still drawn beside its predicted place after a correction, in world units. */
  readonly offset: number;
}

/** What is counted. Everything counts up from the client's beginning; rates are for who looks twice. */
export interface Stats {
  /** `webtransport` or `websocket`, or empty before the first link. */
  transport: string;
  /** Bytes of datagrams and messages; over WebSocket with its frames' heads, over WebTransport without what QUIC adds. */
  bytesUp: number;
  bytesDown: number;
  datagramsUp: number;
  datagramsDown: number;
  /** State packets taken in, */
  packets: number;
  /** their bytes, and the tick of the last, */
  stateBytes: number;
  stateTick: number;
  /** refused (malformed, twice, too old), */
  refused: number;
  /** and missing in their sequence. */
  lost: number;
  /** The share of state packets that were lost of late, 0 to 1. */
  loss: number;
  /** Records in packets: states, whole or updated, and notices. */
  updates: number;
  /** What decoding took in all, in microseconds. */
  decodeMicros: number;
  /** Round trip in milliseconds; NaN before the first echo. */
  rtt: number;
  /** How irregularly packets arrive, in milliseconds. */
  jitter: number;
  /** Mean delay of interpolation over the replicas shown of late, in milliseconds; 0 when predicting. */
  delay: number;
  /** Own states that came as foreseen, */
  foreseen: number;
  /** and those that did not. */
  corrected: number;
  /** How far the last correction moved the avatar, in world units. */
  correction: number;
  /** Links that broke. */
  breaks: number;
  /** Times that the session moved to another server without a break. */
  moves: number;
  /** Inputs left out to keep step with the server. */
  adjusted: number;
}

/** Why a server turned somebody away. */
export interface Refusal {
  readonly why: RefusalCode;
  readonly text: string;
}

/** In the order of their numbers on the wire. */
export const REFUSALS = [
  "version", "schema", "token", "token-expired", "token-replayed", "name", "name-taken", "full", "malformed", "timeout",
  "closing", "dishonest", "storage", "token-clock", "handshake-timeout",
] as const;
/** Why, in a word. */
export type RefusalCode = (typeof REFUSALS)[number];

/** What can be listened to with `on`. */
export interface ClientEvents<Event> {
  /** Another state of the client. */
  state: (state: ClientState) => void;
  /** Something happened in the game. */
  event: (event: Event) => void;
  /** A replica appeared, */
  appeared: (id: bigint) => void;
  /** got no more updates for now, */
  frozen: (id: bigint) => void;
  /** or is gone. */
  gone: (id: bigint) => void;
  /** A player's name has come, after `nameOf` asked for it. */
  name: (player: number, name: string) => void;
}

/** One player's view of a server's world. Made by `connect`. */
export interface Client<Input = never, Action = never, Event = unknown> {
  readonly state: ClientState;
  /** Why one was refused, once one was. */
  readonly refusal: Refusal | null;
  /** The player's number; 0 before the first welcome. */
  readonly player: number;
  /** The id of one's avatar. */
  readonly avatar: bigint;
  /** The server's tick as its quickest packets tell it, with its fraction. */
  readonly tick: number;
  /** The tick that is on the screen: behind `tick` by the delay when interpolating. What actions and shots refer to. */
  readonly shownTick: number;
  /** The length of a round in milliseconds. */
  readonly round: number;
  readonly schema: Schema;
  readonly stats: Readonly<Stats>;

  /** All replicas in view; with `frozen` also those that have left it, as they were then. */
  objects(which?: { readonly frozen?: boolean }): IterableIterator<ObjectView>;
  /** A replica, frozen or not. */
  object(id: bigint): ObjectView | undefined;
  /** How far a replica may be relied on; undefined if there is none. */
  liveness(id: bigint): Liveness | undefined;
  /** Where to draw a replica now; call it once a frame for each. False if there is none, or it has no place. */
  sample(id: bigint, out: Sample): boolean;
  /** The newest state as values by the names of the schema's fields, with `owner` and `epoch`. */
  value(id: bigint): Record<string, FieldValue> | undefined;
  /** One's own avatar, predicted; null before its first state and for games without a rule. */
  own(): OwnView | null;

  /**
   * Called once a round, by the client's own clock. What it returns is the input of the tick; `undefined` gives
   * none.
   */
  onTick(ask: (tick: number) => Input | undefined): void;
  /** The input of every tick from now on, for who has no `onTick`. */
  input(input: Input): void;
  /** Asks something of an object. What is said without a link is lost. */
  ask(object: bigint, action: Action): void;
  /** Another view from now on. */
  view(which: number): void;
  /** Looks from somebody else's avatar, too, as far as the game allows it; null: only from one's own. */
  watch(object: bigint | null): void;
  /** A player's name; empty until it has come, which `on("name", …)` tells. */
  nameOf(player: number): string;
  /** Listens; returns what ends it. */
  on<K extends keyof ClientEvents<Event>>(what: K, listener: ClientEvents<Event>[K]): () => void;
  /** Says good-bye and closes. */
  leave(): void;
}

/** A sample to be filled. */
export function newSample(): Sample {
  return { place: [0, 0, 0], yaw: 0, pitch: 0, staleness: 0, shownError: 0, frozen: false, jumped: false };
}
