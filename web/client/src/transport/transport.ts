/** A link to a server: datagrams, which may be lost, and messages, which are reliable and ordered. */

/** Why a link ended. */
export interface Closed {
  /** The server's code, or 0 if the link just broke. */
  readonly code: number;
  readonly reason: string;
}

/** One link. Its opener sets the three listeners before the next turn of the event loop. */
export interface Transport {
  readonly kind: "webtransport" | "websocket";
  /** Bytes that the transport adds to data of this length, as far as a page can know. */
  framing(length: number, up: boolean): number;
  datagram(bytes: Uint8Array): void;
  message(bytes: Uint8Array): void;
  onDatagram: (bytes: Uint8Array) => void;
  onMessage: (bytes: Uint8Array) => void;
  /** Called once, whichever side closed the link. */
  onClose: (why: Closed) => void;
  close(): void;
}
