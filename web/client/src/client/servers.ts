/**
 * A client's links besides its host's, in a world on many servers: one ahead, to the server to which its session moves
 * or to the standby of a silent host, and one to the former host. Section 10.1 of `docs/WIRE.md`; the same as
 * `crates/foveate-node/src/client/links.rs`. With a plain server there are none.
 */
import type { Contact } from "../session/messages.js";
import type { Transport } from "../transport/transport.js";

/** A host from which nothing arrived for this long is silent; its standby is tried at this interval. Milliseconds. */
const SILENT_AFTER = 500;
/** Most successive redirections: with more, the servers disagree on which of them is responsible. */
export const MAX_REDIRECTS = 8;

interface Ahead {
  readonly contact: Contact;
  /** The ticket to enter with; null to use the key of the session. */
  ticket: Uint8Array | null;
  /** Null while it is being opened. */
  transport: Transport | null;
  /** Whether the server expects the client. */
  waits: boolean;
  /** Number of redirections that led there. */
  readonly redirects: number;
}

/** Callbacks for links ahead. */
export interface LinkMaker {
  open(contact: Contact): Promise<Transport>;
  /** Listens to a new link. */
  attach(transport: Transport): void;
  /** Sends Enter, or Hello without a ticket. */
  introduce(transport: Transport, ticket: Uint8Array | null): void;
}

export class Servers {
  /** The server to try if the host is silent or gone. */
  standby: Contact | null = null;
  /** The highest session epoch that was announced; 0 before the first. */
  private epoch = 0n;
  private ahead: Ahead | null = null;
  private former: Transport | null = null;
  /** Milliseconds since something arrived from the host, or since its standby was last tried. */
  private silent = 0;

  constructor(private readonly maker: LinkMaker) {}

  /** Whether this is a world on many servers. */
  get isMany(): boolean {
    return this.epoch > 0n;
  }

  /** The link ahead, once datagrams must also be sent there. */
  get also(): Transport | null {
    return this.ahead?.waits === true ? this.ahead.transport : null;
  }

  /** Whether this link is one of these. */
  has(transport: Transport): boolean {
    return this.isAhead(transport) || this.former === transport;
  }

  isAhead(transport: Transport): boolean {
    return this.ahead?.transport === transport;
  }

  /** Handles a server's statement that it hosts the session; false if a later one has stated that. */
  hosted(epoch: bigint): boolean {
    if (epoch < this.epoch) return false;
    this.epoch = epoch;
    return true;
  }

  /** Resets the epochs for another session. */
  restart(): void {
    this.epoch = 0n;
    this.standby = null;
  }

  /** Records that the server at this link expects us. */
  expected(transport: Transport): void {
    if (this.ahead?.transport === transport) this.ahead.waits = true;
  }

  /** Opens a link ahead to a server. */
  goAhead(contact: Contact, ticket: Uint8Array | null, redirects = 0): void {
    const known = this.ahead;
    if (known !== null && isSame(known.contact, contact)) {
      known.ticket = ticket;
      if (known.transport !== null) this.maker.introduce(known.transport, ticket);
      return;
    }
    this.dropAhead();
    const ahead: Ahead = { contact, ticket, transport: null, waits: false, redirects };
    this.ahead = ahead;
    this.maker.open(contact).then(
      (transport) => {
        if (this.ahead !== ahead) {
          transport.close();
          return;
        }
        ahead.transport = transport;
        this.maker.attach(transport);
        this.maker.introduce(transport, ahead.ticket);
      },
      () => {
        if (this.ahead === ahead) this.ahead = null;
      },
    );
  }

  /** Follows a redirection from the server ahead. */
  redirect(contact: Contact, ticket: Uint8Array): void {
    const redirects = (this.ahead?.redirects ?? 0) + 1;
    this.dropAhead();
    if (redirects <= MAX_REDIRECTS) this.goAhead(contact, ticket, redirects);
  }

  /** Makes one of these links the host's; the former host's is closed once the new host has sent a frame. */
  promote(transport: Transport, former: Transport | null): void {
    if (this.isAhead(transport)) this.ahead = null;
    if (this.former !== transport) this.former?.close();
    this.former = former;
    this.silent = 0;
  }

  /** Records that something arrived from the host. */
  hostSpoke(): void {
    this.silent = 0;
  }

  /** Records a frame from the host: neither the former host nor the standby is needed. */
  hostShowed(): void {
    this.hostSpoke();
    const { former } = this;
    this.former = null;
    former?.close();
    if (this.ahead?.ticket === null) this.dropAhead();
  }

  /** Advances by `time` milliseconds, and tries a silent host's standby. */
  pass(time: number): void {
    this.silent += time;
    if (this.silent < SILENT_AFTER || this.ahead !== null || this.standby === null) return;
    this.silent = 0;
    this.goAhead(this.standby, null);
  }

  /** Drops one of these links, which ended or is not needed. */
  drop(transport: Transport): void {
    if (this.isAhead(transport)) this.ahead = null;
    if (this.former === transport) this.former = null;
    transport.close();
  }

  dropAhead(): void {
    const ahead = this.ahead;
    this.ahead = null;
    ahead?.transport?.close();
  }

  /** Closes all links. */
  end(): void {
    this.dropAhead();
    this.former?.close();
    this.former = null;
  }
}

function isSame(a: Contact, b: Contact): boolean {
  return a.addresses.join(" ") === b.addresses.join(" ") && String(a.certificate) === String(b.certificate);
}
