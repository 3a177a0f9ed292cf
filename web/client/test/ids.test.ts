import assert from "node:assert/strict";
import { test } from "node:test";
import { idKind, idOrigin, idSerial, objectId } from "../src/wire/ids.js";

test("an id gives the object's owner, whichever player created it", () => {
  for (const [serial, origin] of [
    [0, 7],
    [42, 7],
    // Created while the game ran: for a player, for the world.
    [0x8000_002a, 7],
    [0xc000_002a, 0],
  ]) {
    const id = objectId(200, 7, serial);
    assert.deepEqual([idKind(id), idOrigin(id), idSerial(id)], [200, origin, serial]);
  }
});
