// Serves this page and the built client, and hands on to the game server what is the game server's.
// node examples/web-minimal/serve.mjs [game server, http://127.0.0.1:8080] [port, 8090]
import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { connect } from "node:net";

const game = new URL(process.argv[2] ?? "http://127.0.0.1:8080");
const port = Number(process.argv[3] ?? 8090);
const [page, client] = ["./index.html", "../../web/client/dist/src/"].map((path) => new URL(path, import.meta.url));

async function answer(path) {
  if (path === "/") return ["text/html", await readFile(page)];
  const file = new URL(path.slice("/client/".length), client);
  const isOurs = path.startsWith("/client/") && path.endsWith(".js") && file.href.startsWith(client.href);
  return isOurs ? ["text/javascript", await readFile(file)] : null;
}

const server = createServer(async (asked, out) => {
  const found = await answer(asked.url).catch(() => null);
  if (found !== null) return out.setHeader("content-type", found[0]).end(found[1]);
  const onward = request(new URL(asked.url, game), (there) => {
    out.writeHead(there.statusCode, there.headers);
    there.pipe(out);
  });
  onward.on("error", (error) => out.writeHead(502).end(`the game server at ${game.host}: ${error.message}\n`));
  onward.end();
});
server.on("upgrade", (asked, socket, head) => {
  const there = connect(Number(game.port), game.hostname, () => {
    const headers = asked.rawHeaders.reduce((all, part, n) => all + part + (n % 2 ? "\r\n" : ": "), "");
    there.write(`GET ${asked.url} HTTP/1.1\r\n${headers}\r\n`);
    there.write(head);
    there.pipe(socket).pipe(there);
  });
  [there, socket].forEach((one) => one.on("error", () => [there, socket].forEach((end) => end.destroy())));
});
server.listen(port, "127.0.0.1", () => console.log(`dots on http://127.0.0.1:${port}/, of the game at ${game.href}`));
