/**
 * The public types of a client: options, the client itself, and its events.
 *
 * Ids are bigints: kind, origin and serial in 64 bits. Places are in world units, angles in radians, times in
 * milliseconds of the page's clock unless a name says otherwise.
 */
import type { Reader, Writer } from "../session/postcard.js";
import type { FieldValue } from "../wire/values.js";
import type { Schema } from "../wire/schema.js";

/** The kind of link: `auto` tries WebTransport and falls back to WebSocket. */
export type TransportChoice = "auto" | "webtransport" | "websocket";

/** How replicas are shown. */
export type Show = "predict" | "interpolate";

/** What the client needs from a game. `Input`, `Action` and `Event` are the game's own types. */
export interface GameAdapter<Input = never, Action = never, Event = unknown> {
  /** The schema or its text; without it, the text is fetched from the server's `/schema.txt`. */
  readonly schema?: string | Schema;
  /** Encodes an input in postcard. */
  encodeInput?(input: Input): Uint8Array;
  /** Appends an action in postcard. */
  encodeAction?(action: Action, writer: Writer): void;
  /** Reads one event; throws `ReadError` (as the reader does) for invalid bytes. */
  decodeEvent?(reader: Reader): Event;
  /**
   * The game's rule: the player's own avatar after an input. `state` is a copy of its lanes, which may be changed in
   * place and returned. Without a rule the own avatar is shown like all others.
   */
  predict?(state: Int32Array, input: Input, tick: number): Int32Array;
}

/** Options for joining. */
export interface ConnectOptions<Input = never, Action = never, Event = unknown> {
  /** The address of the server's page, e.g. `location.href`, where `/connect.json` and `/schema.txt` are. */
  readonly base: string;
  readonly name: string;
  /** A connect token, if the server requires one. */
  readonly token?: Uint8Array;
  readonly game: GameAdapter<Input, Action, Event>;
  readonly transport?: TransportChoice;
  /** How replicas are shown; `predict` by default. */
  readonly show?: Show;
}

/** The state of a client. */
export type ClientState = "joining" | "playing" | "reconnecting" | "refused" | "closed";

/**
 * How current a replica is: `live` while updates arrive as needed, `lingering` while the server is silent, `frozen` out
 * of the view, as it was when it left.
 */
export type Liveness = "live" | "lingering" | "frozen";

/** The known state of a replica. Valid until the next packet: copy what must be kept. */
export interface ObjectView {
  readonly id: bigint;
  /** Its kind's number in the schema. */
  readonly kind: number;
  readonly alias: number;
  /** The newest state that arrived; read only. */
  readonly lanes: Int32Array;
  /** The tick of that state. */
  readonly tick: number;
  /** Whether it is out of interest, so that nothing newer is known. */
  readonly frozen: boolean;
}

/** Where a replica is drawn. Samples can be reused. */
export interface Sample {
  /** x, y, z in world units; z is 0 in two dimensions. */
  readonly place: [number, number, number];
  yaw: number;
  pitch: number;
  /** Milliseconds since the newest state was current. */
  staleness: number;
  /** The distance that smoothing adds to the replica's error, in world units. */
  shownError: number;
  frozen: boolean;
  /** Whether it has just jumped: draw no movement from the previous place. */
  jumped: boolean;
}

/** The player's own avatar: predicted to the newest input, and smoothed. */
export interface OwnView {
  /** The predicted state; read only. */
  readonly lanes: Int32Array;
  readonly place: readonly [number, number, number];
  readonly yaw: number;
  readonly pitch: number;
  /** The distance between its drawn and its predicted place after a correction, in world units. */
  readonly offset: number;
}

/** Counters, which only grow; compute rates from two readings. */
export interface Stats {
  /** `webtransport` or `websocket`, or empty before the first link. */
  transport: string;
  /**
   * Bytes of datagrams and messages; with WebSocket including frame heads, with WebTransport without what QUIC adds.
   */
  bytesUp: number;
  bytesDown: number;
  datagramsUp: number;
  datagramsDown: number;
  /** State packets applied. */
  packets: number;
  /** Bytes of state packets, and the tick of the last one. */
  stateBytes: number;
  stateTick: number;
  /** State packets refused (malformed, duplicate, too old). */
  refused: number;
  /** State packets missing in the sequence. */
  lost: number;
  /** The share of recent state packets that were lost, 0 to 1. */
  loss: number;
  /** Records in packets: whole states, updates and notices. */
  updates: number;
  /** Total time of decoding, in microseconds. */
  decodeMicros: number;
  /** Round trip in milliseconds; NaN before the first echo. */
  rtt: number;
  /** Variation of packets' arrival times, in milliseconds. */
  jitter: number;
  /** Mean delay of interpolation over recently shown replicas, in milliseconds; 0 when predicting. */
  delay: number;
  /** States of the own avatar that were as predicted. */
  foreseen: number;
  /** States of the own avatar that were not. */
  corrected: number;
  /** How far the last correction moved the avatar, in world units. */
  correction: number;
  /** Links that broke. */
  breaks: number;
  /** Times that the session moved to another server without a break. */
  moves: number;
  /** Inputs skipped to keep in step with the server. */
  adjusted: number;
}

/** Why a server refused a player. */
export interface Refusal {
  readonly why: RefusalCode;
  readonly text: string;
}

/** In the order of their numbers on the wire. */
export const REFUSALS = [
  "version", "schema", "token", "token-expired", "token-replayed", "name", "name-taken", "full", "malformed", "timeout",
  "closing", "dishonest", "storage", "token-clock", "handshake-timeout",
] as const;
/** The reason of a refusal. */
export type RefusalCode = (typeof REFUSALS)[number];

/** Events for `on`. */
export interface ClientEvents<Event> {
  /** The client's state changed. */
  state: (state: ClientState) => void;
  /** Something happened in the game. */
  event: (event: Event) => void;
  /** A replica appeared. */
  appeared: (id: bigint) => void;
  /** A replica left the view and gets no updates for now. */
  frozen: (id: bigint) => void;
  /** A replica is gone. */
  gone: (id: bigint) => void;
  /** A player's name arrived, after `nameOf` requested it. */
  name: (player: number, name: string) => void;
}

/** One player's view of a server's world. Made by `connect`. */
export interface Client<Input = never, Action = never, Event = unknown> {
  readonly state: ClientState;
  /** Why the player was refused, once it was. */
  readonly refusal: Refusal | null;
  /** The player's number; 0 before the first welcome. */
  readonly player: number;
  /** The id of the player's own avatar. */
  readonly avatar: bigint;
  /** The server's tick, estimated from its fastest packets, with its fraction. */
  readonly tick: number;
  /** The tick on the screen: when interpolating, behind `tick` by the delay. Actions and shots refer to it. */
  readonly shownTick: number;
  /** The length of a round in milliseconds. */
  readonly round: number;
  readonly schema: Schema;
  readonly stats: Readonly<Stats>;

  /** All replicas in view; with `frozen` also those that have left it, as they were then. */
  objects(which?: { readonly frozen?: boolean }): IterableIterator<ObjectView>;
  /** A replica, frozen or not. */
  object(id: bigint): ObjectView | undefined;
  /** How current a replica is; undefined if there is none. */
  liveness(id: bigint): Liveness | undefined;
  /**
   * Computes where to draw a replica now; call it once a frame for each. False if there is none, or it has no place.
   */
  sample(id: bigint, out: Sample): boolean;
  /** The newest state as values by the names of the schema's fields, with `owner` and `epoch`. */
  value(id: bigint): Record<string, FieldValue> | undefined;
  /** The player's own avatar, predicted; null before its first state and for games without a rule. */
  own(): OwnView | null;

  /** Called once a round by the client's clock. Its result is the input of the tick; `undefined` for none. */
  onTick(ask: (tick: number) => Input | undefined): void;
  /** Sets the input of every tick from now on, for pages without `onTick`. */
  input(input: Input): void;
  /** Requests an action of an object. Requests without a link are lost. */
  ask(object: bigint, action: Action): void;
  /** Requests another view. */
  view(which: number): void;
  /** Also looks from another player's avatar, if the game allows it; null for only the own avatar. */
  watch(object: bigint | null): void;
  /** A player's name; empty until it has arrived, which `on("name", …)` reports. */
  nameOf(player: number): string;
  /** Adds a listener; the result removes it. */
  on<K extends keyof ClientEvents<Event>>(what: K, listener: ClientEvents<Event>[K]): () => void;
  /** Leaves the session and closes. */
  leave(): void;
}

/** A sample to be filled. */
export function newSample(): Sample {
  return { place: [0, 0, 0], yaw: 0, pitch: 0, staleness: 0, shownError: 0, frozen: false, jumped: false };
}
