/**
 * A client without sockets and timers: calls pass in bytes and times, and return bytes to send.
 *
 * It does what `crates/foveate-node/src/client.rs` does, in the same order; a test runs both over one recorded session
 * and compares their output. Times are milliseconds of any monotonic clock.
 */
import { Replicas } from "../replica/replicas.js";
import type { Change, Replica } from "../replica/replicas.js";
import { Smoother } from "../replica/show.js";
import { REPEATED, readFrame, writeUpward } from "../session/frames.js";
import type { Frame } from "../session/frames.js";
import { MOVING_SESSIONS, RELIABLE_EVENTS, enter, hello, readServerMessage } from "../session/messages.js";
import type { ServerMessage } from "../session/messages.js";
import { ReadError, Reader, Writer } from "../session/postcard.js";
import { PacketError, VERSION } from "../wire/packet.js";
import type { Schema } from "../wire/schema.js";
import { Clock } from "./clock.js";
import { Foresight } from "./foresight.js";
import { OwnShown } from "./own.js";
import type { GameAdapter, OwnView, Sample, Show, Stats } from "./types.js";

/** With more inputs than this waiting at the server, one is skipped, so that inputs are used sooner. */
const TOO_EARLY = 3;
/** Rounds between two skipped inputs, so that the effect can be seen first. */
const PATIENCE = 20;
/**
 * If the avatar rests elsewhere than predicted for this long, it is corrected although no state arrives; in
 * milliseconds.
 */
const DOUBT = 1_000;
/**
 * Most datagrams that are kept until the welcome arrives, which may have to be sent again: two seconds' worth at 20 Hz,
 * and the packets of a full state. Newer ones are dropped.
 */
const MAX_EARLY = 64;
/** Number of packets over which the share of lost ones is averaged. */
const LOSS_WINDOW = 256;

/** Supported versions of the wire, oldest first. */
const VERSIONS = [VERSION, RELIABLE_EVENTS, MOVING_SESSIONS] as const;

/** Callbacks for what incoming bytes contain. */
export interface Told<Event> {
  change(change: Change, id: bigint): void;
  event(event: Event): void;
}

/** Counters at zero. */
export function newStats(): Stats {
  return {
    transport: "", bytesUp: 0, bytesDown: 0, datagramsUp: 0, datagramsDown: 0, packets: 0, stateBytes: 0, stateTick: 0, refused: 0, lost: 0, loss: 0,
    updates: 0, decodeMicros: 0, rtt: NaN, jitter: 0, delay: 0, foreseen: 0, corrected: 0, correction: 0, breaks: 0, moves: 0,
    adjusted: 0,
  };
}

export class Core<Input, Action, Event> {
  replicas: Replicas;
  player = 0;
  avatar = 0n;
  /** The length of a round, in microseconds. */
  round = 50_000;
  readonly stats = newStats();
  private resume: Uint8Array | null = null;
  private seated = false;
  /** Datagrams of this link that overtook its welcome, with their times; null before the hello and after a refusal. */
  private early: { bytes: Uint8Array; at: number }[] | null = null;
  private readonly clock = new Clock();
  private readonly foresight: Foresight<Input>;
  private readonly ownShown = new OwnShown();
  private readonly smoothers = new Map<bigint, Smoother>();
  /** Since when the avatar has rested elsewhere than predicted. */
  private doubted: number | null = null;
  private waiting = 0;
  private adjustedAt = 0;
  private ticks = 0;
  private readonly writer = new Writer();

  constructor(
    private readonly game: GameAdapter<Input, Action, Event>,
    private readonly schema: Schema,
    private readonly show: Show,
    private readonly told: Told<Event>,
    /** Returns milliseconds, to measure decoding. */
    private readonly stopwatch: () => number,
  ) {
    this.replicas = new Replicas(schema, 0);
    const { predict } = game;
    this.foresight = new Foresight(predict === undefined ? null : (state, input, tick) => predict.call(game, state, input, tick));
  }

  /** The first message on a new link. */
  hello(name: string, token: Uint8Array): Uint8Array {
    if (!this.seated) this.early = [];
    return hello({ versions: VERSIONS, schema: this.schema.hash, name, token, resume: this.resume });
  }

  /** The first message on a link to a server that another server named. */
  enter(name: string, ticket: Uint8Array): Uint8Array {
    return enter({ versions: VERSIONS, schema: this.schema.hash, name, ticket });
  }

  /** Forgets the session: there is nothing to resume. */
  forget(): void {
    this.resume = null;
    this.early = null;
  }

  /** Marks that no server hosts the session for now. */
  pause(): void {
    this.seated = false;
  }

  /** Continues the session at a server that knows everything the former host knew; false if there is no session. */
  goOn(): boolean {
    this.seated ||= this.resume !== null;
    return this.seated;
  }

  /** Reads a message; null if it is invalid. */
  read(bytes: Uint8Array): ServerMessage | null {
    try {
      return readServerMessage(bytes);
    } catch (error) {
      if (!(error instanceof ReadError)) throw error;
      this.stats.refused++;
      return null;
    }
  }

  /** Handles the host's welcome. */
  welcome(message: ServerMessage & { is: "welcome" }): void {
    if (!message.resumed) {
      for (const replica of this.replicas.all()) this.told.change("gone", replica.id);
      this.replicas = new Replicas(this.schema, message.tick);
      this.smoothers.clear();
    }
    this.foresight.restart();
    this.clock.restart();
    this.round = Math.max(message.round, 1);
    this.resume = message.resume;
    this.player = message.player;
    this.avatar = message.avatar;
    this.waiting = 0;
    this.seated = true;
    const early = this.early ?? [];
    this.early = null;
    for (const { bytes, at } of early) this.datagram(bytes, at);
  }

  /**
   * Handles a datagram. One that overtook the welcome is kept for it: the server would consider it lost only after a
   * timeout, and send the first states again.
   */
  datagram(bytes: Uint8Array, now: number): void {
    if (!this.seated) {
      if (this.early !== null && this.early.length < MAX_EARLY) this.early.push({ bytes: bytes.slice(), at: now });
      return;
    }
    let frame: Frame;
    try {
      frame = readFrame(bytes);
    } catch (error) {
      if (!(error instanceof ReadError)) throw error;
      this.stats.refused++;
      return;
    }
    const own = frame.state.length > 0 && this.receive(frame.state, now);
    if (frame.echo !== null) {
      this.clock.echo(frame.echo[0], frame.echo[1], now * 1000);
      this.stats.rtt = this.clock.rtt;
    }
    if (frame.events.length > 0) this.readEvents(frame.events);
    if (frame.input !== null) {
      this.waiting = frame.input[1];
      if (own || this.isDoubtful(frame.input[0], now)) {
        this.doubted = null;
        this.reconcile(frame.input[0], now);
      }
    } else if (own && this.foresight.lanes !== null) {
      // The state is from before any of our inputs was used: all of them are still to be applied.
      this.reconcile(this.foresight.beforeAll, now);
    }
  }

  /**
   * Whether the avatar has rested elsewhere than predicted for long. Unchanged states are not sent, so a player that
   * stops after lost inputs would not be corrected otherwise.
   */
  private isDoubtful(seq: number, now: number): boolean {
    const known = this.foresight.after(seq);
    const truth = this.replicas.get(this.avatar);
    const place = truth?.spec.place ?? null;
    let differs = false;
    if (known !== null && truth !== undefined && place !== null) {
      // A difference of up to two steps may remain unsent.
      differs = distance(known, truth.lanes, place.at, place.dims) > 2;
      for (let axis = 0; axis < place.dims; axis++) {
        differs &&= truth.predicted(this.replicas.newest, axis) === truth.lanes[place.at + axis];
      }
    }
    this.doubted = differs ? (this.doubted ?? now) : null;
    return this.doubted !== null && now - this.doubted >= DOUBT;
  }

  /** Applies a state packet; returns whether it has a new state of our avatar. */
  private receive(state: Uint8Array, now: number): boolean {
    const { stats, replicas } = this;
    let own = false;
    const begun = this.stopwatch();
    try {
      const received = replicas.receive(state, (change, replica) => {
        own ||= replica.id === this.avatar && (change === "updated" || change === "appeared");
        if (change === "gone") this.smoothers.delete(replica.id);
        this.told.change(change, replica.id);
      });
      if (received !== "ok") {
        stats.refused++;
        return false;
      }
    } catch (error) {
      if (!(error instanceof PacketError)) throw error;
      stats.refused++;
      return false;
    }
    stats.decodeMicros += (this.stopwatch() - begun) * 1000;
    stats.packets++;
    stats.stateBytes += state.length;
    stats.stateTick = replicas.header.tick;
    stats.updates += replicas.packet.count;
    this.countLoss(replicas.ahead);
    this.clock.learn(replicas.header.tick * this.round, now * 1000, this.round);
    stats.jitter = this.clock.jitter;
    return own;
  }

  /** Counts the packets between the newest one before and one that is `ahead` of it as missing, for now. */
  private countLoss(ahead: number): void {
    const { stats } = this;
    if (ahead <= 0) {
      stats.lost = Math.max(stats.lost - 1, 0);
      stats.loss = Math.max(stats.loss - 1 / LOSS_WINDOW, 0);
      return;
    }
    stats.lost += ahead - 1;
    const kept = (1 - 1 / LOSS_WINDOW) ** (ahead - 1);
    stats.loss = (1 - (1 - stats.loss) * kept) * (1 - 1 / LOSS_WINDOW);
  }

  /** Decodes events and reports each. */
  readEvents(bytes: Uint8Array): void {
    if (this.game.decodeEvent === undefined || !this.seated) return;
    const reader = new Reader(bytes);
    while (reader.left > 0) {
      const before = reader.left;
      try {
        this.told.event(this.game.decodeEvent(reader));
      } catch (error) {
        if (!(error instanceof ReadError)) throw error;
        this.stats.refused++;
        return;
      }
      if (reader.left === before) return; // a decoder that reads nothing would loop for ever
    }
  }

  private reconcile(seq: number, now: number): void {
    const truth = this.replicas.get(this.avatar);
    if (truth === undefined) return;
    const { foresight, stats } = this;
    const place = truth.spec.place;
    const before = foresight.lanes;
    this.ownShown.keep(foresight, truth.spec, now, this.round);
    if (foresight.reconcile(seq, truth.lanes, this.replicas.newest)) {
      if (before !== null && foresight.lanes !== null && place !== null) {
        stats.correction = distance(before, foresight.lanes, place.at, place.dims) * place.precision;
      }
      this.ownShown.glide(foresight, truth.spec, now, this.round);
    }
    stats.foreseen = foresight.foreseen;
    stats.corrected = foresight.corrected;
  }

  /** Plays one round with the player's input. Returns the datagram to send, or null before the welcome. */
  tick(now: number, ask: (tick: number) => Input | undefined): Uint8Array | null {
    if (!this.seated) return null;
    this.ticks++;
    const { foresight } = this;
    const tick = Math.floor(this.tickAt(now)) >>> 0;
    const own = this.replicas.get(this.avatar);
    if (foresight.lanes === null && own !== undefined) foresight.begin(own.lanes);
    if (this.inStep() && foresight.lanes !== null && this.game.encodeInput !== undefined) {
      const input = ask(tick);
      if (input !== undefined) {
        foresight.foresee(input, this.game.encodeInput(input), tick);
        this.ownShown.stepped(now);
      }
    }
    const { first, inputs } = foresight.newest(REPEATED);
    const { arrivals } = this.replicas;
    return writeUpward(this.writer, arrivals.any ? arrivals.ack : null, Math.floor(now), first, inputs);
  }

  /** Whether this round has an input: sometimes it has none, to keep the server's queue short. */
  private inStep(): boolean {
    if (this.ticks - this.adjustedAt < PATIENCE || this.waiting <= TOO_EARLY) return true;
    this.adjustedAt = this.ticks;
    this.stats.adjusted++;
    return false;
  }

  /** The server's time, in microseconds. */
  private timeAt(now: number): number {
    return this.clock.time(now * 1000, this.replicas.newest * this.round);
  }

  /** The tick of the newest state that is on its way to us, with its fraction. */
  tickAt(now: number): number {
    return this.timeAt(now) / this.round;
  }

  /** Computes where to draw a replica. */
  sample(id: bigint, now: number, out: Sample): boolean {
    const replica = this.replicas.get(id);
    if (replica === undefined) return false;
    const smoother = this.smootherOf(replica);
    const drawn = smoother.sample(replica, this.timeAt(now), out);
    this.stats.delay += (smoother.delay / 1000 - this.stats.delay) / 64;
    return drawn;
  }

  private smootherOf(replica: Replica): Smoother {
    const known = this.smoothers.get(replica.id);
    if (known !== undefined) return known;
    const made = new Smoother(this.show, this.round);
    this.smoothers.set(replica.id, made);
    return made;
  }

  /** The player's own avatar, predicted; null before its first state and for games without a rule. */
  own(now: number): OwnView | null {
    const kind = this.replicas.get(this.avatar)?.spec;
    if (this.game.predict === undefined || kind === undefined) return null;
    return this.ownShown.view(this.foresight, kind, now, this.round);
  }
}

function distance(a: Int32Array, b: Int32Array, at: number, dims: number): number {
  let square = 0;
  for (let lane = at; lane < at + dims; lane++) square += (a[lane] - b[lane]) ** 2;
  return Math.sqrt(square);
}
