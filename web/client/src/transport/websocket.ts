/** Links over WebSocket, for networks that block UDP: binary frames whose first byte is their type. */
import { MAX_MESSAGE } from "../session/messages.js";
import type { Closed, Transport } from "./transport.js";

const DATAGRAM = 0;
const MESSAGE = 1;
/** With more bytes than this waiting to be sent, datagrams are dropped: on a slow link a newer one is worth more. */
const MAX_WAITING = 4096;

/** Opens a link; fails if it is not open within `limit` milliseconds. */
export function openWebSocket(url: string, limit: number): Promise<Transport> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const late = setTimeout(() => fail("no answer"), limit);
    const fail = (why: string): void => {
      clearTimeout(late);
      socket.onopen = socket.onclose = null;
      socket.close();
      reject(new Error(`WebSocket: ${why}`));
    };
    socket.onclose = () => fail("refused");
    socket.onopen = () => {
      clearTimeout(late);
      resolve(new SocketTransport(socket));
    };
  });
}

class SocketTransport implements Transport {
  readonly kind = "websocket";
  onDatagram: (bytes: Uint8Array) => void = () => {};
  onMessage: (bytes: Uint8Array) => void = () => {};
  onClose: (why: Closed) => void = () => {};
  private open = true;

  constructor(private readonly socket: WebSocket) {
    socket.onmessage = (event: MessageEvent<unknown>) => this.received(event.data);
    // Codes of the application start at 4000; others only mean that the link broke.
    socket.onclose = ({ code, reason }) => this.ended({ code: code >= 4000 ? code - 4000 : 0, reason });
  }

  /** The type byte, the frame's head, and the mask when sending: as the server's meter counts them. */
  framing(length: number, up: boolean): number {
    return 1 + (length + 1 < 126 ? 2 : 4) + (up ? 4 : 0);
  }

  datagram(bytes: Uint8Array): void {
    if (this.socket.bufferedAmount <= MAX_WAITING) this.send(DATAGRAM, bytes);
  }

  message(bytes: Uint8Array): void {
    this.send(MESSAGE, bytes);
  }

  close(): void {
    this.socket.close();
    this.ended({ code: 0, reason: "closed here" });
  }

  private send(what: number, bytes: Uint8Array): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    const framed = new Uint8Array(bytes.length + 1);
    framed[0] = what;
    framed.set(bytes, 1);
    this.socket.send(framed);
  }

  private received(data: unknown): void {
    if (!this.open || !(data instanceof ArrayBuffer) || data.byteLength < 1 || data.byteLength > MAX_MESSAGE + 1) return;
    const bytes = new Uint8Array(data);
    if (bytes[0] === DATAGRAM) this.onDatagram(bytes.subarray(1));
    else if (bytes[0] === MESSAGE) this.onMessage(bytes.subarray(1));
  }

  private ended(why: Closed): void {
    if (!this.open) return;
    this.open = false;
    this.onClose(why);
  }
}
