/** An object's permanent, unique id: kind (8 bits), creator (24 bits), serial (32 bits). */
export function objectId(kind: number, creator: number, serial: number): bigint {
  return (BigInt(kind & 0xff) << 56n) | (BigInt(creator & 0xff_ffff) << 32n) | BigInt(serial >>> 0);
}

/** The object's kind, an index in the schema. */
export function idKind(id: bigint): number {
  return Number((id >> 56n) & 0xffn);
}

/**
 * The object's owner by its id: a player's number, or 0 for the world. If the two highest bits of the serial are set,
 * the object is one of the world's that was created during the game, and the creator is the node that did it.
 */
export function idOrigin(id: bigint): number {
  const creator = Number((id >> 32n) & 0xff_ffffn);
  return (id & 0xc000_0000n) === 0xc000_0000n ? 0 : creator;
}

/** The low 32 bits: a running number, for objects that the world or a player starts with. */
export function idSerial(id: bigint): number {
  return Number(id & 0xffff_ffffn);
}
