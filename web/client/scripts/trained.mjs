// Writes src/wire/trained.ts from the wire's trained table: one base64 text, so that no page has to fetch it.
import { readFileSync, writeFileSync } from "node:fs";

const table = readFileSync(new URL("../../../crates/foveate-wire/src/trained.bin", import.meta.url));
const text = table.toString("base64").match(/.{1,112}/g).map((line) => `  "${line}"`).join(" +\n");
writeFileSync(new URL("../src/wire/trained.ts", import.meta.url), `/**
 * The trained table, as much part of the wire's version as \`docs/WIRE.md\`. Made by \`npm run trained\` from
 * \`crates/foveate-wire/src/trained.bin\`; a test holds it to be the same bytes.
 */
export const TRAINED_BASE64 =
${text};
`);
