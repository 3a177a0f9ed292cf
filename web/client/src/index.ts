/**
 * Foveate in the browser and in Node: the protocol's second implementation, written from `docs/WIRE.md`.
 *
 * The path of a packet: a transport passes a datagram to the client → the frame is decoded (`session/frames`) → the
 * state packet is read as a whole (`wire/packet`) → applied to the replicas (`replica/replicas`) → drawn through
 * `sample`, smoothed (`replica/show`) → acknowledged with the next input. It has no dependencies and knows no game: a
 * game is passed in as a `GameAdapter`.
 */
export * from "./client/types.js";
export { connect } from "./client/connect.js";
export { RefusedError, ConnectError } from "./client/errors.js";
export { ReadError, Reader, Writer } from "./session/postcard.js";
export { Schema, SchemaError } from "./wire/schema.js";
export type { Field, Kind, Role } from "./wire/schema.js";
export type { FieldType } from "./wire/types.js";
export type { FieldValue } from "./wire/values.js";
export { idKind, idOrigin, idSerial, objectId } from "./wire/ids.js";
