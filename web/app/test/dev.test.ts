import assert from "node:assert/strict";
import { test } from "node:test";
import config from "../vite.config.js";

test("what the page asks the game server for is handed on while it is worked on", () => {
  const passed = Object.keys((config as { server: { proxy: Record<string, unknown> } }).server.proxy);
  for (const path of ["/connect.json", "/schema.txt", "/arena.json", "/play", "/observe", "/reports"]) {
    assert.ok(passed.includes(path), path);
  }
});
