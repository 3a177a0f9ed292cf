/** Joining a server. */
import { Opener, fetchText } from "../transport/open.js";
import { Schema } from "../wire/schema.js";
import { GameClient } from "./client.js";
import type { Client, ConnectOptions } from "./types.js";

/**
 * Joins a server; resolves once one is in. Rejects with `RefusedError` where the server turns one away, `ConnectError`
 * where there is no link, `SchemaError` for a schema that cannot be used.
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
