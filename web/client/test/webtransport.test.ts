/** WebTransport sessions, with a browser that the test controls. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openWebTransport } from "../src/transport/webtransport.js";

/** A session that stands at once; `stream` is what its server says on the stream. */
class Session {
  static last: Session;
  static stream = new Uint8Array(0);
  /** Never settles: the session stays open until it is closed. */
  readonly closed = new Promise<never>(() => {});
  closes = 0;
  readonly ready = Promise.resolve();
  readonly datagrams = { readable: new ReadableStream(), writable: new WritableStream(), outgoingMaxAge: 0 };

  constructor() {
    Session.last = this;
  }

  async createBidirectionalStream(): Promise<object> {
    const readable = new ReadableStream({ start: (to) => to.enqueue(Session.stream) });
    return { readable, writable: new WritableStream() };
  }

  close(): void {
    this.closes++;
  }
}

test("a stream that cannot be read ends the link, and the session with it", async () => {
  Object.assign(globalThis, { WebTransport: Session });
  Session.stream = Uint8Array.of(0, 0, 0, 1);
  const transport = await openWebTransport("https://example.invalid/play", new Uint8Array(32), 100);
  const reason = await new Promise<string>((resolve) => (transport.onClose = (why) => resolve(why.reason)));
  assert.equal(reason, "the link broke");
  transport.close();
  assert.equal(Session.last.closes, 1);
});
