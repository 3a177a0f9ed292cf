/** Errors of joining. */
import type { Refusal } from "./types.js";

/** The server refused the client. The session has ended. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";

  constructor(readonly refusal: Refusal) {
    super(refusal.text === "" ? `refused: ${refusal.why}` : refusal.text);
  }
}

/** No link could be opened, or a document of the server is missing. Worth another attempt. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
}
