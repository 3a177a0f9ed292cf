import { defineConfig } from "vite";

// `npm run dev` serves the page by itself and hands everything that the game server answers to it.
const server = process.env.FOVEATE_SERVER ?? "http://127.0.0.1:8080";
const passed = ["/connect.json", "/schema.txt", "/arena.json", "/play", "/observe", "/reports"];

export default defineConfig({
  build: {
    target: "es2022",
    // The program carries these files inside: no source maps, no polyfills.
    sourcemap: false,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: Object.fromEntries(passed.map((path) => [path, { target: server, ws: true }])),
  },
});
