/** Walks an avatar by its keys, as a person would: along the ways, around the walls. */

import type { Person } from "./browser.js";

export interface Place {
  x: number;
  y: number;
}

export interface Own extends Place {
  yaw: number;
  team: number;
  health: number;
}

interface ArenaDocument {
  side: number;
  nodes: [number, number][];
  edges: [number, number][];
}

/** A corner of the way is reached this near to it, in units. */
const NEAR = 2.5;

export async function arena(url: string): Promise<ArenaDocument> {
  return (await (await fetch(`${url}/arena.json`)).json()) as ArenaDocument;
}

/** The corners from one place to another: the shortest way over the graph. */
export function route(map: ArenaDocument, from: Place, to: Place): Place[] {
  const at = (node: number): Place => ({ x: map.nodes[node]![0], y: map.nodes[node]![1] });
  const nearest = (place: Place): number =>
    map.nodes.reduce((best, _, node) => (far(at(node), place) < far(at(best), place) ? node : best), 0);
  const neighbours = map.nodes.map((): number[] => []);
  for (const [a, b] of map.edges) {
    neighbours[a]!.push(b);
    neighbours[b]!.push(a);
  }
  const [start, goal] = [nearest(from), nearest(to)];
  const travelled = new Map([[start, 0]]);
  const before = new Map<number, number>();
  const open = new Set([start]);
  while (open.size > 0) {
    const node = [...open].reduce((a, b) => (travelled.get(a)! <= travelled.get(b)! ? a : b));
    open.delete(node);
    if (node === goal) break;
    for (const next of neighbours[node]!) {
      const length = travelled.get(node)! + far(at(node), at(next));
      if (length >= (travelled.get(next) ?? Number.POSITIVE_INFINITY)) continue;
      travelled.set(next, length);
      before.set(next, node);
      open.add(next);
    }
  }
  const way = [to];
  for (let node: number | undefined = goal; node !== undefined; node = before.get(node)) way.unshift(at(node));
  return way;
}

export const far = (a: Place, b: Place): number => Math.hypot(a.x - b.x, a.y - b.y);

/** Holds the keys that lead to a place until `isThere` says so; false if time is up first. */
export async function walk(
  person: Person,
  map: ArenaDocument,
  goal: () => Promise<Place>,
  isThere: (own: Own) => Promise<boolean>,
  ms: number,
): Promise<boolean> {
  const { keyboard } = person.page;
  const held = new Set<string>();
  const hold = async (wanted: readonly string[]): Promise<void> => {
    for (const key of held) if (!wanted.includes(key)) await keyboard.up(key);
    for (const key of wanted) if (!held.has(key)) await keyboard.down(key);
    held.clear();
    for (const key of wanted) held.add(key);
  };
  const end = Date.now() + ms;
  let way: Place[] = [];
  let planned = 0;
  let reached = false;
  while (Date.now() < end) {
    const own = await person.fact<Own | null>("own");
    if (own && own.health > 0) {
      if (await isThere(own)) {
        reached = true;
        break;
      }
      if (Date.now() - planned > 3_000) {
        way = route(map, own, await goal());
        planned = Date.now();
      }
      // A corner is behind us when the next one is nearer to us than to it.
      while (way.length > 1 && (far(own, way[0]!) < NEAR || far(own, way[1]!) < far(way[0]!, way[1]!))) way.shift();
      await hold(keysTowards(own, way[0]!));
    }
    await person.page.waitForTimeout(60);
  }
  await hold([]);
  return reached;
}

function keysTowards(from: Place, to: Place): string[] {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const most = Math.max(Math.abs(dx), Math.abs(dy));
  const keys: string[] = [];
  // Eight directions: the lesser axis takes part from a third on.
  if (Math.abs(dx) > most / 3) keys.push(dx > 0 ? "KeyD" : "KeyA");
  if (Math.abs(dy) > most / 3) keys.push(dy > 0 ? "KeyW" : "KeyS");
  return most < 0.5 ? [] : keys;
}
