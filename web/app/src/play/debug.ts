/** What tests and developers can read in `window.foveate` while the game runs. */

import type { Game } from "./game.js";
import type { ArenaClient } from "./sight.js";

export interface Facts {
  client: ArenaClient | null;
  game: Game | null;
}

export function watchable(facts: Facts): NonNullable<typeof window.foveate> {
  return {
    page: "play",
    get state() {
      return facts.client?.state ?? "none";
    },
    get transport() {
      return facts.client?.stats.transport ?? "";
    },
    get player() {
      return facts.client?.player ?? 0;
    },
    get tick() {
      return facts.client?.tick ?? 0;
    },
    get stats() {
      const stats = facts.client?.stats;
      return stats ? { ...stats } : null;
    },
    /** Bytes per second, as the page shows them. */
    get rates() {
      const link = facts.game?.hud.link;
      return link ? { down: link.down, up: link.up } : null;
    },
    get own() {
      const own = facts.game?.own;
      return own ? { x: own.x, y: own.y, yaw: own.yaw, team: own.team, health: own.health } : null;
    },
    get counts() {
      const sight = facts.game?.sight;
      if (!sight) return null;
      const { avatars, bases, items, units } = sight;
      return {
        avatars: avatars.length,
        bases: bases.length,
        items: items.length,
        units: units.length,
      };
    },
    get others() {
      return (facts.game?.sight.avatars ?? []).map(({ player, x, y, team, health }) => ({
        player,
        x,
        y,
        team,
        health,
      }));
    },
    get bases() {
      const { sight } = facts.game ?? {};
      return (sight?.bases ?? []).map((base) => ({
        x: base.x,
        y: base.y,
        team: base.team,
        progress: sight!.fields.base.progress(base.lanes),
      }));
    },
    get units() {
      return (facts.game?.sight.units ?? [])
        .filter((unit) => unit.player === facts.client?.player)
        .map(({ x, y, health }) => ({ x, y, health }));
    },
    get shots() {
      return facts.game?.shots ?? null;
    },
    /** The match: round, points, phase. */
    get match() {
      const sight = facts.game?.sight;
      if (!sight?.match) return null;
      const { round, first, second, phase } = sight.fields.match;
      const lanes = sight.match;
      return { round: round(lanes), first: first(lanes), second: second(lanes), phase: phase(lanes) };
    },
    /** Converts places of the world to positions on the screen. */
    get camera() {
      const camera = facts.game?.camera;
      return camera ? { x: camera.x, y: camera.y, scale: camera.scale } : null;
    },
    get watched() {
      return facts.game?.watched?.toString() ?? null;
    },
    get steered() {
      return facts.game?.steered ?? null;
    },
    get frames() {
      return facts.game?.frames.facts() ?? null;
    },
  };
}
