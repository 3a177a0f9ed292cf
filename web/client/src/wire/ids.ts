/** The name of an object everywhere and for good: kind (8 bits), creator (24 bits), serial (32 bits). */
export function objectId(kind: number, creator: number, serial: number): bigint {
  return (BigInt(kind & 0xff) << 56n) | (BigInt(creator & 0xff_ffff) << 32n) | BigInt(serial >>> 0);
}

/** The kind of the object: a position in the schema. */
export function idKind(id: bigint): number {
  return Number((id >> 56n) & 0xffn);
}

/**
 * Who the object belongs to: a player's number, or 0 for the world. A serial whose two highest bits are set is of an
 * object of the world's that was created while the game ran; the creator is then the node that did it.
 */
export function idOrigin(id: bigint): number {
  const creator = Number((id >> 32n) & 0xff_ffffn);
  return (id & 0xc000_0000n) === 0xc000_0000n ? 0 : creator;
}

/** The low 32 bits: of objects that the world or a player begins with, a running number. */
export function idSerial(id: bigint): number {
  return Number(id & 0xffff_ffffn);
}
