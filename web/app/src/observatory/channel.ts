/** The channel to the server: opens, finds out why it cannot, and reconnects. */

import type { Command, FromServer } from "./protocol.js";

const TOKEN = "foveate.operator";
/** Time between two attempts, in milliseconds. */
const RETRY = 1_500;

/**
 * `refused`: the server requires the operator's token. `off`: it has no observatory. `lost`: it does not answer;
 * another attempt follows.
 */
export type ChannelState = "connecting" | "open" | "refused" | "off" | "lost";

export class Channel {
  state: ChannelState = "connecting";
  /** The server's message when it refused. */
  private why = "";
  /** Bytes of JSON received, for the debug object. */
  received = 0;
  private socket: WebSocket | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  private readonly decoder = new TextDecoder();

  constructor(
    private readonly onMessage: (message: FromServer) => void,
    private readonly onState: (state: ChannelState, why: string) => void,
  ) {
    this.open();
  }

  send(command: Command): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(command));
  }

  /** Tries again with the operator's token, which this tab remembers. */
  useToken(token: string): void {
    sessionStorage.setItem(TOKEN, token);
    clearTimeout(this.timer);
    this.open();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  private open(): void {
    this.become("connecting");
    const url = new URL("/observe", location.href);
    const token = sessionStorage.getItem(TOKEN);
    if (token) url.searchParams.set("token", token);
    const asHttp = url.href;
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    this.socket = socket;
    socket.onopen = () => this.become("open");
    // The server's links carry bytes, which are JSON here.
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      const text = typeof data === "string" ? data : this.decoder.decode(data);
      this.received += text.length;
      this.onMessage(JSON.parse(text) as FromServer);
    };
    socket.onclose = () => void this.lost(asHttp);
  }

  /** A page cannot learn why a WebSocket was refused, so this sends an ordinary request to the same path. */
  private async lost(url: string): Promise<void> {
    if (this.closed) return;
    let status = 0;
    let text = "";
    try {
      const answer = await fetch(url, { cache: "no-store" });
      [status, text] = [answer.status, await answer.text()];
    } catch {
      // The server does not answer at all.
    }
    if (this.closed) return;
    this.why = text.trim();
    if (status === 401 || (status === 403 && text.includes("token"))) {
      sessionStorage.removeItem(TOKEN);
      this.become("refused");
      return;
    }
    this.become(status === 403 || status === 404 ? "off" : "lost");
    this.timer = setTimeout(() => this.open(), RETRY);
  }

  private become(state: ChannelState): void {
    // While the server does not answer, attempts must not make the display flicker.
    if (state === "connecting" && (this.state === "lost" || this.state === "off")) return;
    this.state = state;
    this.onState(state, this.why);
  }
}
