/** A client with sockets and timers: drives the core once a round, keeps its session's links, and reconnects. */
import * as say from "../session/messages.js";
import type { Contact, ServerMessage } from "../session/messages.js";
import type { Links } from "../transport/open.js";
import type { Transport } from "../transport/transport.js";
import { difference } from "../wire/schema.js";
import type { Schema } from "../wire/schema.js";
import { readState } from "../wire/values.js";
import type { FieldValue } from "../wire/values.js";
import { Core } from "./core.js";
import { ConnectError, RefusedError } from "./errors.js";
import { Names } from "./names.js";
import { MAX_REDIRECTS, Servers } from "./servers.js";
import type {
  Client, ClientEvents, ClientState, ConnectOptions, Liveness, ObjectView, OwnView, Refusal, RefusalCode, Sample, Stats,
} from "./types.js";

/** How long a server may take to answer a hello, in milliseconds. */
const WELCOME_LIMIT = 8_000;
/**
 * How long it may then take if it says that the player is expected: a region without an owner is taken over within 15
 * s.
 */
const WAIT_LIMIT = 20_000;
/** A link on which nothing arrived for this long is dead, in milliseconds. A server sends something every second. */
const QUIET_LIMIT = 5_000;
/** When nothing arrived from the server for this long, replicas may be out of date; in milliseconds. */
const SILENT_LIMIT = 2_000;
/**
 * WebTransport on which no datagram arrives for this long after the welcome, or no welcome at all, is not used again.
 */
const FIRST_DATAGRAM_LIMIT = 2_500;
/**
 * The shortest and longest wait between two attempts to reconnect: each is twice the one before, less a random part.
 */
const BACKOFF = [250, 5_000] as const;
/** Attempts to reconnect: about ten minutes. */
const MAX_TRIES = 120;
/** Most rounds that are played late after a slow timer; earlier ones are skipped. */
const MAX_LATE = 3;
/** Refusals after which the client tries again: the server restarts, or has not yet noticed that we left. */
const PASSING: readonly RefusalCode[] = ["closing", "name-taken", "full", "timeout", "handshake-timeout", "storage"];

export class GameClient<Input, Action, Event> implements Client<Input, Action, Event> {
  state: ClientState = "joining";
  refusal: Refusal | null = null;
  private readonly core: Core<Input, Action, Event>;
  /** The link to the host. */
  private transport: Transport | null = null;
  /** All other links. */
  private readonly servers: Servers;
  private readonly listeners = new Map<string, Set<(...args: never[]) => void>>();
  private readonly names = new Names((player) => this.tell(say.who(player)));
  private asked: (tick: number) => Input | undefined = () => this.held;
  private held: Input | undefined = undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private nextTick = 0;
  private tries = 0;
  private redirects = 0;
  /** Rounds since something arrived on the current link, and whether a datagram ever did. */
  private quiet = 0;
  private hears = false;
  /** Whether a WebTransport link was open without a welcome arriving. */
  private unheard = false;
  /** Settles the first `join`. */
  private joined: { resolve: () => void; reject: (error: Error) => void } | null = null;

  constructor(
    private readonly options: ConnectOptions<Input, Action, Event>,
    readonly schema: Schema,
    private readonly links: Links,
    /** Milliseconds of a monotonic clock. */
    private readonly now: () => number = () => performance.now(),
  ) {
    const told = {
      change: (change: string, id: bigint): void => {
        if (change !== "updated") this.emit(change as "appeared" | "frozen" | "gone", id);
      },
      event: (event: Event): void => this.emit("event", event),
    };
    this.core = new Core(options.game, schema, options.show ?? "predict", told, now);
    this.servers = new Servers({
      open: (contact) => links.open(contact),
      attach: (transport) => this.attach(transport),
      introduce: (transport, ticket) => this.say(transport, this.opening(ticket)),
    });
  }

  /** Opens the first link. */
  async join(): Promise<void> {
    try {
      await this.first(await this.links.open());
    } catch (error) {
      if (!this.unheard) throw error;
      this.become("joining");
      await this.first(await this.links.open());
    }
  }

  private async first(transport: Transport): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.joined = { resolve, reject };
      this.link(transport);
    });
  }

  get player(): number {
    return this.core.player;
  }

  get avatar(): bigint {
    return this.core.avatar;
  }

  get tick(): number {
    return this.core.tickAt(this.now());
  }

  get shownTick(): number {
    return this.tick - (this.options.show === "interpolate" ? (this.stats.delay * 1000) / this.core.round : 0);
  }

  get round(): number {
    return this.core.round / 1000;
  }

  get stats(): Readonly<Stats> {
    return this.core.stats;
  }

  objects(which: { readonly frozen?: boolean } = {}): IterableIterator<ObjectView> {
    return which.frozen === true ? this.core.replicas.all() : this.core.replicas.inView();
  }

  liveness(id: bigint): Liveness | undefined {
    const replica = this.core.replicas.get(id);
    if (replica === undefined) return undefined;
    if (id === this.avatar) return "live";
    if (replica.frozen) return "frozen";
    return this.quiet * this.round > SILENT_LIMIT ? "lingering" : "live";
  }

  object(id: bigint): ObjectView | undefined {
    return this.core.replicas.get(id);
  }

  sample(id: bigint, out: Sample): boolean {
    return this.core.sample(id, this.now(), out);
  }

  value(id: bigint): Record<string, FieldValue> | undefined {
    const replica = this.core.replicas.get(id);
    return replica === undefined ? undefined : readState(replica.spec, replica.lanes);
  }

  own(): OwnView | null {
    return this.core.own(this.now());
  }

  onTick(ask: (tick: number) => Input | undefined): void {
    this.asked = ask;
  }

  input(input: Input): void {
    this.held = input;
  }

  ask(object: bigint, action: Action): void {
    const { game } = this.options;
    const seen = Math.floor(this.shownTick) >>> 0;
    this.tell(say.ask(object, seen, (out) => game.encodeAction?.(action, out)));
  }

  view(which: number): void {
    this.tell(say.view(which));
  }

  watch(object: bigint | null): void {
    this.tell(say.watch(object));
  }

  nameOf(player: number): string {
    return this.names.of(player);
  }

  on<K extends keyof ClientEvents<Event>>(what: K, listener: ClientEvents<Event>[K]): () => void {
    const all = this.listeners.get(what) ?? new Set();
    this.listeners.set(what, all.add(listener));
    return () => void all.delete(listener);
  }

  leave(): void {
    const { transport } = this;
    this.send(say.leave());
    this.core.forget();
    this.servers.end();
    this.end("closed");
    // The message must be sent first.
    if (transport !== null) setTimeout(() => transport.close(), 100);
  }

  private emit<K extends keyof ClientEvents<Event>>(what: K, ...args: Parameters<ClientEvents<Event>[K]>): void {
    for (const listener of this.listeners.get(what) ?? []) guarded(() => (listener as (...args: unknown[]) => void)(...args));
  }

  private become(state: ClientState): void {
    if (this.state === state) return;
    this.state = state;
    this.emit("state", state);
  }

  /** Ends the client: there are no more links. */
  private end(state: "closed" | "refused"): void {
    clearTimeout(this.timer);
    this.transport = null;
    this.become(state);
  }

  /** Sends a message to a server that has admitted us. Before that it treats any message but a hello as a violation. */
  private tell(bytes: Uint8Array): void {
    if (this.state === "playing") this.send(bytes);
  }

  private send(bytes: Uint8Array): void {
    if (this.transport !== null) this.say(this.transport, bytes);
  }

  private say(transport: Transport, bytes: Uint8Array): void {
    this.core.stats.bytesUp += bytes.length + transport.framing(bytes.length, true);
    transport.message(bytes);
  }

  /** The first message on a link. */
  private opening(ticket: Uint8Array | null): Uint8Array {
    const { name, token } = this.options;
    return ticket === null ? this.core.hello(name, token ?? new Uint8Array(0)) : this.core.enter(name, ticket);
  }

  /** Uses a new link and introduces the client on it. */
  private link(transport: Transport, ticket: Uint8Array | null = null): void {
    this.transport = transport;
    this.quiet = 0;
    this.hears = false;
    this.core.stats.transport = transport.kind;
    this.attach(transport);
    this.send(this.opening(ticket));
    this.allow(WELCOME_LIMIT);
  }

  /** Sets how long the current link may take until the welcome. */
  private allow(limit: number): void {
    const { transport } = this;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.unheard = transport?.kind === "webtransport";
      if (this.unheard) this.links.distrust();
      transport?.close();
    }, limit);
  }

  /** Listens to a link. On a link that is not the host's, only messages that decide about the host matter. */
  private attach(transport: Transport): void {
    const { stats } = this.core;
    transport.onDatagram = (bytes) => {
      stats.bytesDown += bytes.length + transport.framing(bytes.length, false);
      stats.datagramsDown++;
      if (this.transport !== transport) return;
      this.quiet = 0;
      this.hears = true;
      this.servers.hostShowed();
      this.core.datagram(bytes, this.now());
      this.wake();
    };
    transport.onMessage = (bytes) => {
      stats.bytesDown += bytes.length + transport.framing(bytes.length, false);
      const message = this.core.read(bytes);
      if (message === null) return;
      if (this.transport === transport) this.heard(message, transport);
      else if (this.servers.has(transport)) this.heardAside(message, transport);
    };
    transport.onClose = ({ reason }) => {
      if (this.transport === transport) this.lost(reason);
      else this.ended(transport);
    };
  }

  /** Handles a message of the host. */
  private heard(message: ServerMessage, transport: Transport): void {
    this.servers.hostSpoke();
    switch (message.is) {
      case "welcome":
        this.core.welcome(message);
        if (!message.resumed) this.servers.restart();
        this.play(message.resumed);
        return;
      case "refused": {
        const differs = message.why === "schema" ? difference(this.schema.text, message.schema) : "";
        this.refused({ why: message.why, text: differs === "" ? message.text : differs });
        return;
      }
      case "name":
        this.names.learn(message.player, message.name);
        this.emit("name", message.player, message.name);
        return;
      case "events":
        this.core.readEvents(message.events);
        return;
      case "wait":
        if (this.state !== "playing") this.allow(WAIT_LIMIT);
        return;
      case "hosted":
        if (this.servers.hosted(message.epoch) && this.state !== "playing" && this.core.goOn()) this.play(true);
        return;
      case "next":
        this.servers.goAhead(message.contact, message.ticket);
        return;
      case "standby":
        this.servers.standby = message.contact;
        return;
      case "redirect":
        this.redirect(message.contact, message.ticket, transport);
    }
  }

  /** Handles a message of another server than the host. */
  private heardAside(message: ServerMessage, transport: Transport): void {
    switch (message.is) {
      case "wait":
        this.servers.expected(transport);
        return;
      case "hosted":
        if (this.servers.hosted(message.epoch) && this.core.goOn()) this.moveTo(transport);
        return;
      case "welcome": {
        const former = this.transport;
        this.host(transport, null);
        former?.close();
        this.heard(message, transport);
        return;
      }
      case "refused":
        this.ended(transport);
        return;
      case "redirect":
        if (this.servers.isAhead(transport)) this.servers.redirect(message.contact, message.ticket);
    }
  }

  /** Makes the server at this link the session's host; everything continues. */
  private moveTo(transport: Transport): void {
    this.host(transport, this.transport);
    this.core.stats.moves++;
    if (this.state === "playing") this.names.restart(true);
    else this.play(true);
  }

  /** Makes this link the host's. */
  private host(transport: Transport, former: Transport | null): void {
    this.transport = transport;
    this.servers.promote(transport, former);
    this.core.stats.transport = transport.kind;
    this.quiet = 0;
  }

  /** The current host runs the session; known names stay if it was resumed. */
  private play(resumed: boolean): void {
    this.tries = 0;
    this.redirects = 0;
    this.become("playing");
    this.names.restart(resumed);
    this.joined?.resolve();
    this.joined = null;
    this.nextTick = this.now();
    this.run();
  }

  /** Follows a redirection to the responsible server. */
  private redirect(contact: Contact, ticket: Uint8Array, from: Transport): void {
    clearTimeout(this.timer);
    this.transport = null;
    this.core.pause();
    from.close();
    this.servers.dropAhead();
    if (++this.redirects > MAX_REDIRECTS) {
      this.redirects = 0;
      this.broke("the servers do not agree on which of them is responsible");
      return;
    }
    if (this.state === "playing") this.become("reconnecting");
    this.links.open(contact).then(
      (transport) => {
        if (this.isIdle()) this.link(transport, ticket);
        else transport.close();
      },
      (error: unknown) => {
        if (this.isIdle()) this.broke(String(error));
      },
    );
  }

  /** Whether a link is wanted and there is none. */
  private isIdle(): boolean {
    return this.transport === null && (this.state === "joining" || this.state === "reconnecting");
  }

  private refused(refusal: Refusal): void {
    const { transport } = this;
    const passing = PASSING.includes(refusal.why);
    // What was kept for us is gone; but other servers of the world may know the session.
    if (!passing || !this.servers.isMany) this.core.forget();
    if (this.joined === null && passing) {
      this.lost(refusal.text);
    } else {
      this.core.pause();
      this.servers.end();
      this.refusal = refusal;
      this.end("refused");
      this.joined?.reject(new RefusedError(refusal));
      this.joined = null;
    }
    transport?.close();
  }

  /** Handles the end of the host's link. A server that expects us will decide about the session. */
  private lost(reason: string): void {
    if (this.state === "playing" && this.servers.also !== null) {
      this.transport = null;
      this.quiet = 0;
      return;
    }
    this.broke(reason);
  }

  /** Handles the end of another link than the host's. */
  private ended(transport: Transport): void {
    this.servers.drop(transport);
    if (this.state === "playing" && this.transport === null && this.servers.also === null) this.broke("no server is left");
  }

  /** Handles the loss of the last link. */
  private broke(reason: string): void {
    clearTimeout(this.timer);
    this.transport = null;
    this.core.pause();
    if (this.joined !== null) {
      this.joined.reject(new ConnectError(reason === "" ? "the link broke before the server answered" : reason));
      this.joined = null;
      this.become("closed");
      return;
    }
    if (this.state === "playing") this.core.stats.breaks++;
    this.become("reconnecting");
    this.comeBack();
  }

  /** Reconnects after a wait. */
  private comeBack(): void {
    if (this.tries >= MAX_TRIES) {
      this.servers.end();
      this.end("closed");
      return;
    }
    // Alternates with the page's server, which may be the one that is gone.
    const standby = this.tries % 2 === 0 ? this.servers.standby : null;
    const longest = Math.min(BACKOFF[0] * 2 ** this.tries, BACKOFF[1]);
    const pause = standby !== null && this.tries === 0 ? 0 : longest * (0.5 + Math.random() / 2);
    this.tries++;
    this.timer = setTimeout(() => {
      this.links.open(standby ?? undefined).then(
        (transport) => {
          if (this.isIdle()) this.link(transport);
          else transport.close();
        },
        () => {
          if (this.isIdle()) this.comeBack();
        },
      );
    }, pause);
  }

  /** Plays the rounds that are due, and sets the timer for the next one. */
  private run(): void {
    clearTimeout(this.timer);
    const [now, round] = [this.now(), this.round];
    // A page that was suspended does not catch up.
    this.nextTick = Math.max(this.nextTick, now - MAX_LATE * round);
    while (this.nextTick <= now) {
      this.nextTick += round;
      this.oneRound(this.now());
    }
    if (this.isDead()) return;
    this.timer = setTimeout(() => this.run(), this.nextTick - this.now());
  }

  /**
   * Wakes up by a timer. In a background page timers may run only once a minute; a server disconnects a client that is
   * silent for ten seconds.
   */
  private wake(): void {
    if (this.state === "playing" && this.now() > this.nextTick + MAX_LATE * this.round) this.run();
  }

  private oneRound(now: number): void {
    const bytes = this.core.tick(now, (tick) => guarded(() => this.asked(tick)));
    this.quiet++;
    this.names.round();
    this.servers.pass(this.round);
    if (bytes === null) return;
    for (const transport of [this.transport, this.servers.also]) {
      if (transport === null) continue;
      this.core.stats.bytesUp += bytes.length + transport.framing(bytes.length, true);
      this.core.stats.datagramsUp++;
      transport.datagram(bytes);
    }
  }

  /**
   * Whether the link is dead, since nothing arrives any more. Counted in rounds, since a suspended page receives
   * nothing.
   */
  private isDead(): boolean {
    const { transport } = this;
    if (this.state !== "playing") return true;
    const limit = this.hears ? QUIET_LIMIT : FIRST_DATAGRAM_LIMIT;
    if (this.quiet * this.round <= limit) return false;
    if (!this.hears && transport?.kind === "webtransport") this.links.distrust();
    if (transport === null) {
      this.servers.dropAhead();
      this.broke("the server that should host the session does not answer");
    } else {
      this.lost("no data arrived any more");
      transport.close();
    }
    return this.transport === null && this.servers.also === null;
  }
}

/**
 * Reports an error of the page's code, and goes on: the rest of the packet, the link and the rounds are not affected.
 */
function guarded<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    (globalThis.reportError ?? console.error)(error);
    return undefined;
  }
}
