/** Datagrams of a session: the client's with its inputs, the server's frames. Section 10 of `docs/WIRE.md`. */
import { MAX_PACKET, VERSION } from "../wire/packet.js";
import { ReadError, Reader, Writer } from "./postcard.js";

/** Inputs in a datagram: the newest, and earlier ones in case their datagrams were lost. */
export const REPEATED = 6;
/** Most bytes that a frame adds to a state packet. */
const FRAME_ROOM = 32;
const INPUT = (VERSION << 4) | 3;
const FRAME = (VERSION << 4) | 4;

/** Writes a client's datagram. `ack`: the newest packet and bits for those before it; `inputs`: oldest first. */
export function writeUpward(
  out: Writer,
  ack: readonly [newest: number, before: number] | null,
  clock: number,
  first: number,
  inputs: readonly Uint8Array[],
): Uint8Array {
  out.clear();
  out.u8(INPUT);
  out.u8((inputs.length << 1) | (ack === null ? 0 : 1));
  out.plain16(clock & 0xffff);
  if (ack !== null) {
    out.plain16(ack[0]);
    out.plain32(ack[1]);
  }
  out.plain16(first & 0xffff);
  for (const input of inputs) out.raw(input);
  return out.finish();
}

/** The contents of a server's datagram. */
export interface Frame {
  /** The newest input that the state includes, and how many wait after it. */
  readonly input: readonly [seq: number, waiting: number] | null;
  /** The newest clock value received, and how many milliseconds ago. */
  readonly echo: readonly [clock: number, held: number] | null;
  /** Encoded events. */
  readonly events: Uint8Array;
  /** The state packet; empty if there is none. */
  readonly state: Uint8Array;
  /** The low bits of the tick, if there is no state packet. */
  readonly tick: number;
}

const NOTHING = new Uint8Array(0);

/** Reads a server's datagram; throws `ReadError`. */
export function readFrame(bytes: Uint8Array): Frame {
  const r = new Reader(bytes);
  if (bytes.length > MAX_PACKET + FRAME_ROOM || r.u8() !== FRAME) throw new ReadError("no frame");
  const flags = r.u8();
  if (flags > 15) throw new ReadError("unknown flags");
  const pair = (): readonly [number, number] => [r.plain16(), r.u8()];
  const input = (flags & 1) !== 0 ? pair() : null;
  const echo = (flags & 2) !== 0 ? pair() : null;
  const events = (flags & 4) !== 0 ? r.raw(r.plain16()) : NOTHING;
  if ((flags & 8) !== 0) {
    if (r.left === 0) throw new ReadError("a frame without its state");
    return { input, echo, events, state: r.rest(), tick: 0 };
  }
  const tick = r.plain16();
  if (r.left > 0) throw new ReadError("something follows a frame");
  return { input, echo, events, state: NOTHING, tick };
}
