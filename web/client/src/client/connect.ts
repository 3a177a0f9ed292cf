/** Joins a server. */
import { Opener, fetchText } from "../transport/open.js";
import { Schema } from "../wire/schema.js";
import { GameClient } from "./client.js";
import type { Client, ConnectOptions } from "./types.js";

/**
 * Joins a server; resolves once the player is admitted. Rejects with `RefusedError` if the server refuses the player,
 * with `ConnectError` without a link, and with `SchemaError` for an invalid schema.
 */
export async function connect<Input, Action, Event>(
  options: ConnectOptions<Input, Action, Event>,
): Promise<Client<Input, Action, Event>> {
  const given = options.game.schema ?? (await fetchText(new URL("/schema.txt", options.base)));
  const schema = typeof given === "string" ? Schema.parse(given) : given;
  const opener = new Opener(options.base, options.transport ?? "auto");
  const client = new GameClient(options, schema, opener);
  await client.join();
  return client;
}
