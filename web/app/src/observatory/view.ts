/** The numbers that each policy takes, and checks before the server's. */

import type { Bound, PolicyName, View } from "./protocol.js";

export type Key =
  | "view"
  | "critical"
  | "field"
  | "interval_ms"
  | "side"
  | "aoi"
  | "floor_degrees"
  | "inner_facing"
  | "interaction_boost";

/** Keys that may be missing. */
const OPTIONAL: readonly Key[] = ["interval_ms", "floor_degrees", "inner_facing", "aoi", "interaction_boost"];

export const KEYS: Record<Key, { title: string; about: string; step: number | "any" }> = {
  view: { title: "View, units", about: "V: nothing farther away is sent", step: "any" },
  critical: { title: "Critical, units", about: "C: everything within is sent at once", step: "any" },
  field: { title: "Field, degrees", about: "The field of view, in all", step: "any" },
  interval_ms: {
    title: "Interval, ms",
    about: "I: the shortest time between two updates; 0 for every round",
    step: 1,
  },
  side: { title: "Zone side, units", about: "The side of a square zone", step: "any" },
  aoi: { title: "Circle, units", about: "The circle around each object", step: "any" },
  floor_degrees: {
    title: "Floor, degrees",
    about: "Deviations of place below this angle, seen from the pivot, are no difference",
    step: "any",
  },
  inner_facing: {
    title: "Inner facing",
    about: "Facing floors in the innermost zone, as a share of the schema’s",
    step: "any",
  },
  interaction_boost: {
    title: "Interaction boost",
    about: "Objects that acted on the player, or the player on them, are this many times sharper at first",
    step: "any",
  },
};

/** The keys of each policy, besides those that all have. */
export const POLICIES: Record<PolicyName, readonly Key[]> = {
  vfc: [],
  a3: ["view", "critical", "field", "interval_ms"],
  circle: ["view", "interval_ms"],
  attenuated: ["view", "critical", "interval_ms"],
  fov: ["view", "field", "interval_ms"],
  zoned: ["side", "aoi", "interval_ms"],
  broadcast: ["interval_ms"],
  custom: [],
};

export const emptyCell = (): Bound => ({ age_ms: 100, share: 0.1 });

/**
 * The view with only the keys of its policy, or what is missing. The server checks ranges and order, and answers with a
 * message.
 */
export function checked(view: View): { view: View } | { wrong: string } {
  const kept: View = { policy: view.policy };
  for (const key of [...POLICIES[view.policy], "floor_degrees", "inner_facing", "interaction_boost"] as const) {
    const value = view[key];
    if (value === undefined && OPTIONAL.includes(key)) continue;
    if (value === undefined || !Number.isFinite(value)) {
      return { wrong: `${KEYS[key].title}: the policy ${view.policy} needs a number here` };
    }
    kept[key] = value;
  }
  if (view.line_of_sight) kept.line_of_sight = view.line_of_sight;
  if (view.sets && view.sets.length > 0) kept.sets = view.sets;
  if (view.policy === "custom") {
    if (!view.custom) return { wrong: "custom: choose one of the game’s policies" };
    return { view: { ...kept, custom: view.custom } };
  }
  if (view.policy !== "vfc") return { view: kept };
  const { zones = [], fields = [], kappa = [] } = view;
  if (zones.length === 0) return { wrong: "zones: at least one is needed" };
  if (fields.length === 0) return { wrong: "fields: at least one is needed, the last is 360" };
  if ([...zones, ...fields].some((value) => value !== null && !Number.isFinite(value))) {
    return { wrong: "zones and fields: numbers, and ∞ for the last zone" };
  }
  return { view: { ...kept, zones, fields, kappa } };
}
