/** The name of an object everywhere and for good: kind (8 bits), origin (24 bits), serial (32 bits). */
export function objectId(kind: number, origin: number, serial: number): bigint {
  return (BigInt(kind & 0xff) << 56n) | (BigInt(origin & 0xff_ffff) << 32n) | BigInt(serial >>> 0);
}

/** The kind of the object: a position in the schema. */
export function idKind(id: bigint): number {
  return Number((id >> 56n) & 0xffn);
}

/** Who created the object: a player's number, or 0 for the world. */
export function idOrigin(id: bigint): number {
  return Number((id >> 32n) & 0xff_ffffn);
}

/** The creator's running number. */
export function idSerial(id: bigint): number {
  return Number(id & 0xffff_ffffn);
}
