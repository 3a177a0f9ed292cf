/** Objects that are removed and created again by the same name. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Replicas } from "../src/replica/replicas.js";
import type { Change, Replica } from "../src/replica/replicas.js";
import { Schema } from "../src/wire/schema.js";

const SCHEMA = Schema.parse("thing: max_speed=0 fall=0\nthing.n: Integer { min: 0, max: 255 } role=Plain floor=0\n");
const ID = 5n;

/** What a packet says, without the packet. */
interface Inside {
  applyFull(n: number, alias: number, tick: number, changed: (change: Change, replica: Replica) => void): void;
  notice(alias: number, life: "frozen" | "gone", tick: number, changed: (change: Change, replica: Replica) => void): void;
}

test("an object that was created again stays, in whatever order one hears of it, and is not said to be gone", () => {
  // Its first life by alias 0 from tick 1 to 2, the second by alias 1 from tick 3 on.
  const told = ["first", "gone", "second"] as const;
  for (const order of [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]) {
    const replicas = new Replicas(SCHEMA, 0);
    const heard: string[] = [];
    const inside = replicas as unknown as Inside;
    const hear = (change: Change): number => heard.push(change);
    for (const what of order.map((n) => told[n])) {
      replicas.packet.clear();
      replicas.packet.kind[0] = 0;
      [replicas.packet.origin[0], replicas.packet.serial[0]] = [0, Number(ID)];
      replicas.packet.room(SCHEMA.kinds[0].lanes);
      if (what === "gone") inside.notice(0, "gone", 2, hear);
      else inside.applyFull(0, what === "first" ? 0 : 1, what === "first" ? 1 : 3, hear);
    }
    assert.equal(replicas.get(ID)?.alias, 1, `${order}: ${heard}`);
    assert.equal(heard.at(-1), "appeared", `${order}: ${heard}`);
  }
});
