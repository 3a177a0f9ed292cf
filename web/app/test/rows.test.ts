import assert from "node:assert/strict";
import test from "node:test";
import { curves, NotRows, readRows } from "../src/lab/rows.js";

const FILE = JSON.stringify({
  experiment: "a3",
  seed: 1,
  rows: [
    { policy: "a3", avatars: 50, mean_bps: 20, zones: [1, 2] },
    { policy: "a3", avatars: 25, mean_bps: 10, zones: [3, 4] },
    { policy: "none", avatars: 25, mean_bps: null },
  ],
});

test("columns are found, lists spread, numbers told from names", () => {
  const rows = readRows(FILE);
  assert.deepEqual(rows.columns, ["policy", "avatars", "mean_bps", "zones.1", "zones.2"]);
  assert.deepEqual(rows.names, ["policy"]);
  assert.ok(rows.numeric.includes("mean_bps") && rows.numeric.includes("zones.2"));
});

test("curves rise in x, are parted by name, and leave out what is no number", () => {
  assert.deepEqual(curves(readRows(FILE), "avatars", "mean_bps", "policy"), [
    {
      name: "a3",
      points: [
        [25, 10],
        [50, 20],
      ],
    },
  ]);
});

test("other files are refused in words", () => {
  assert.throws(() => readRows("{"), NotRows);
  assert.throws(() => readRows("[]"), /experiment, seed and rows/);
  assert.throws(() => readRows("null"), /experiment, seed and rows/);
});
