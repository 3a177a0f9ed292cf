/** Links over WebTransport: raw datagrams, and length-prefixed messages on one stream. */
import { MAX_MESSAGE } from "../session/messages.js";
import type { Closed, Transport } from "./transport.js";

const HEAD = 4;
/** Datagrams that have waited longer than this are dropped, in milliseconds. */
const MAX_AGE = 200;

/**
 * Opens a link; fails if it is not open within `limit` milliseconds. `hash`: SHA-256 of the server's certificate, or
 * null for one that the browser trusts.
 */
export async function openWebTransport(url: string, hash: Uint8Array | null, limit: number): Promise<Transport> {
  const session = new WebTransport(url, {
    ...(hash === null ? {} : { serverCertificateHashes: [{ algorithm: "sha-256", value: hash as BufferSource }] }),
    congestionControl: "low-latency",
    requireUnreliable: true,
  });
  // The caller gets the failure through `ready`; this one must not count as unhandled.
  session.closed.catch(() => {});
  try {
    await within(session.ready, limit);
    return new SessionTransport(session, await within(session.createBidirectionalStream(), limit));
  } catch (error) {
    session.close();
    throw error;
  }
}

function within<T>(promise: Promise<T>, limit: number): Promise<T> {
  let late: ReturnType<typeof setTimeout> | undefined;
  const timer = new Promise<never>((_, reject) => {
    late = setTimeout(() => reject(new Error("WebTransport: no answer")), limit);
  });
  return Promise.race([promise, timer]).finally(() => clearTimeout(late));
}

class SessionTransport implements Transport {
  readonly kind = "webtransport";
  onDatagram: (bytes: Uint8Array) => void = () => {};
  onMessage: (bytes: Uint8Array) => void = () => {};
  onClose: (why: Closed) => void = () => {};
  private open = true;
  private readonly datagrams: WritableStreamDefaultWriter<Uint8Array>;
  private readonly messages: WritableStreamDefaultWriter<Uint8Array>;

  constructor(
    private readonly session: WebTransport,
    stream: WebTransportBidirectionalStream,
  ) {
    session.datagrams.outgoingMaxAge = MAX_AGE;
    this.datagrams = session.datagrams.writable.getWriter();
    this.messages = stream.writable.getWriter();
    // An empty message without meaning: a stream exists for the other end only once something was sent on it.
    this.message(new Uint8Array(0));
    const broke = (): void => {
      // Invalid data ends the link here. The session may still be open and must be closed, since no other code would.
      session.close();
      this.ended({ code: 0, reason: "the link broke" });
    };
    this.readDatagrams().catch(broke);
    this.readMessages(stream.readable).catch(broke);
    session.closed.then(({ closeCode, reason }) => this.ended({ code: closeCode ?? 0, reason: reason ?? "" }), broke);
  }

  /** What QUIC adds cannot be seen here. */
  framing(): number {
    return 0;
  }

  datagram(bytes: Uint8Array): void {
    // When the writer is full, a newer datagram is worth more than a queue of old ones.
    if ((this.datagrams.desiredSize ?? 0) > 0) this.datagrams.write(bytes).catch(() => {});
  }

  message(bytes: Uint8Array): void {
    const framed = new Uint8Array(HEAD + bytes.length);
    new DataView(framed.buffer).setUint32(0, bytes.length, true);
    framed.set(bytes, HEAD);
    this.messages.write(framed).catch(() => {});
  }

  close(): void {
    if (this.open) this.session.close();
    this.ended({ code: 0, reason: "closed here" });
  }

  private async readDatagrams(): Promise<void> {
    const reader = (this.session.datagrams.readable as ReadableStream<Uint8Array>).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      if (this.open) this.onDatagram(value);
    }
  }

  private async readMessages(readable: ReadableStream<Uint8Array>): Promise<void> {
    const reader = readable.getReader();
    const parts = new Parts();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      parts.add(value);
      for (let message = parts.next(); message !== null; message = parts.next()) {
        if (this.open && message.length > 0) this.onMessage(message);
      }
    }
  }

  private ended(why: Closed): void {
    if (!this.open) return;
    this.open = false;
    this.onClose(why);
  }
}

/** Splits a stream of bytes into messages. */
export class Parts {
  private bytes = new Uint8Array(0);

  add(more: Uint8Array): void {
    const both = new Uint8Array(this.bytes.length + more.length);
    both.set(this.bytes);
    both.set(more, this.bytes.length);
    this.bytes = both;
  }

  /** The next message, or null until more has arrived. Throws for one that is too long. */
  next(): Uint8Array | null {
    if (this.bytes.length < HEAD) return null;
    const length = new DataView(this.bytes.buffer, this.bytes.byteOffset).getUint32(0, true);
    if (length > MAX_MESSAGE) throw new Error(`a message of ${length} bytes`);
    if (this.bytes.length < HEAD + length) return null;
    const message = this.bytes.slice(HEAD, HEAD + length);
    this.bytes = this.bytes.subarray(HEAD + length);
    return message;
  }
}
