/** A link to a server: datagrams, which may be lost, and messages, which arrive in order or not at all. */

/** Why a link ended. */
export interface Closed {
  /** The server's code, or 0 where the link just broke. */
  readonly code: number;
  readonly reason: string;
}

/** One link. Whoever makes it sets the three listeners before the next turn of the event loop. */
export interface Transport {
  readonly kind: "webtransport" | "websocket";
  /** Bytes that the transport itself adds to so many, as far as a page can know. */
  framing(length: number, up: boolean): number;
  datagram(bytes: Uint8Array): void;
  message(bytes: Uint8Array): void;
  onDatagram: (bytes: Uint8Array) => void;
  onMessage: (bytes: Uint8Array) => void;
  /** Called once, whoever ended the link. */
  onClose: (why: Closed) => void;
  close(): void;
}
