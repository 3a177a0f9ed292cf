/** What joining can fail with. */
import type { Refusal } from "./types.js";

/** The server turned us away. Nothing is left of the session. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";

  constructor(readonly refusal: Refusal) {
    super(refusal.text === "" ? `refused: ${refusal.why}` : refusal.text);
  }
}

/** No link could be made, or what the server serves beside it is missing. Worth another try. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
}
