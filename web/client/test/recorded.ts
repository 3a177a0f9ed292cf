/** What `npm run record` leaves: packets and a session of a server of this tree, in virtual time. */
import { existsSync, readFileSync } from "node:fs";
import { Reader } from "../src/session/postcard.js";
import { Schema } from "../src/wire/schema.js";
import { projectFile } from "./files.js";

const FOLDER = "target/mirror/";

/** Why tests that need a record are skipped; false if it is there. */
export const MISSING = existsSync(projectFile(`${FOLDER}packets.bin`)) ? false : "there is no record: npm run record";

/** The schema of a record, and its cases. */
export function open(name: string): { schema: Schema; reader: Reader } {
  const reader = new Reader(readFileSync(projectFile(FOLDER + name)));
  return { schema: Schema.parse(reader.text()), reader };
}

export function recordedMap(): unknown {
  return JSON.parse(readFileSync(projectFile(`${FOLDER}arena.json`), "utf-8"));
}

/** A list after its length. */
export function list<T>(reader: Reader, item: () => T): T[] {
  return Array.from({ length: reader.u32() }, item);
}
