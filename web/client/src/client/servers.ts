/**
 * A client's links beside its host's, in a world on many servers: one ahead, to the server that its session moves to or
 * to the standby of a silent host, and the former host's. Section 10.1 of `docs/WIRE.md`; it does what
 * `crates/foveate-node/src/client/links.rs` does. At a plain server nothing of this happens.
 */
import type { Contact } from "../session/messages.js";
import type { Transport } from "../transport/transport.js";

/** A host by which nothing came for so long is silent; its standby is tried once in this time. Milliseconds. */
const SILENT_AFTER = 500;
/** Redirections in a row; beyond, the servers do not agree on which of them is responsible. */
export const MAX_REDIRECTS = 8;

interface Ahead {
  readonly contact: Contact;
  /** What lets us in there; null: the key to resume. */
  ticket: Uint8Array | null;
  /** Null while it is being made. */
  transport: Transport | null;
  /** The server expects the client. */
  waits: boolean;
  /** Redirections that led there. */
  readonly redirects: number;
}

/** What is done for links ahead. */
export interface LinkMaker {
  open(contact: Contact): Promise<Transport>;
  /** Listens to a new link. */
  attach(transport: Transport): void;
  /** Says Enter, or Hello where there is no ticket. */
  introduce(transport: Transport, ticket: Uint8Array | null): void;
}

export class Servers {
  /** The server to try when the host is silent or gone. */
  standby: Contact | null = null;
  /** The highest session epoch that was told; 0 before the first. */
  private epoch = 0n;
  private ahead: Ahead | null = null;
  private former: Transport | null = null;
  /** For how long nothing has come from the host, or since its standby was last tried; milliseconds. */
  private silent = 0;

  constructor(private readonly maker: LinkMaker) {}

  /** Whether this is a world on many servers. */
  get isMany(): boolean {
    return this.epoch > 0n;
  }

  /** The link ahead, once datagrams are to be sent there as well. */
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

  /** A server says that it hosts the session; false if a later one has said so. */
  hosted(epoch: bigint): boolean {
    if (epoch < this.epoch) return false;
    this.epoch = epoch;
    return true;
  }

  /** Another session begins: its epochs are other ones. */
  restart(): void {
    this.epoch = 0n;
    this.standby = null;
  }

  /** The server at this link expects us. */
  expected(transport: Transport): void {
    if (this.ahead?.transport === transport) this.ahead.waits = true;
  }

  /** Wants a link to a server. */
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

  /** The server ahead says that another one is responsible. */
  redirect(contact: Contact, ticket: Uint8Array): void {
    const redirects = (this.ahead?.redirects ?? 0) + 1;
    this.dropAhead();
    if (redirects <= MAX_REDIRECTS) this.goAhead(contact, ticket, redirects);
  }

  /** One of these links becomes the host's; the one that was it is closed once the new host has sent a frame. */
  promote(transport: Transport, former: Transport | null): void {
    if (this.isAhead(transport)) this.ahead = null;
    if (this.former !== transport) this.former?.close();
    this.former = former;
    this.silent = 0;
  }

  /** Something came from the host. */
  hostSpoke(): void {
    this.silent = 0;
  }

  /** A frame came from the host: neither the former one is needed, nor the standby. */
  hostShowed(): void {
    this.hostSpoke();
    const { former } = this;
    this.former = null;
    former?.close();
    if (this.ahead?.ticket === null) this.dropAhead();
  }

  /** So many milliseconds have passed: a silent host's standby is tried. */
  pass(time: number): void {
    this.silent += time;
    if (this.silent < SILENT_AFTER || this.ahead !== null || this.standby === null) return;
    this.silent = 0;
    this.goAhead(this.standby, null);
  }

  /** One of these links is not needed, or has ended. */
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

  /** No more links. */
  end(): void {
    this.dropAhead();
    this.former?.close();
    this.former = null;
  }
}

function isSame(a: Contact, b: Contact): boolean {
  return a.addresses.join(" ") === b.addresses.join(" ") && String(a.certificate) === String(b.certificate);
}
