/**
 * A unit's place on its way, computed from its order as on the server: `arena/src/game/ways.rs`, `graph.rs`, `map.rs`.
 * Only `+ − · /` and roots are used, in the same order, so that doubles agree to the last bit.
 */
import { SUBUNITS } from "./map.js";
import type { ArenaDocument, Point } from "./map.js";

/** Speed of units, in units per second. */
const SPEED = 5;
/** Radius of an avatar, with the distance kept from obstacles. */
const KEPT_CLEAR = 1 + 0.25;
/** Width of a grid cell: nodes are searched cell by cell, which decides ties. */
const CELL = 12;
/** Of this many near nodes, the nearest that can be walked to is used. */
const CANDIDATES = 8;
/** Ways that are cached; when there are more, all are dropped. */
const MAX_WAYS = 1024;

/** A half-plane: a place is inside if n · p is not above the offset. */
interface Plane {
  readonly nx: number;
  readonly ny: number;
  readonly offset: number;
}

/** A corner of a way, with its distance from the start. */
interface Corner {
  readonly at: Point;
  readonly far: number;
}

function distance(a: Point, b: Point): number {
  const [dx, dy] = [b[0] - a[0], b[1] - a[1]];
  return Math.sqrt(dx * dx + dy * dy);
}

/** The ways of one map. */
export class Ways {
  private readonly shapes: Plane[][];
  private readonly order: number[];
  private readonly joined: number[][];
  private readonly known = new Map<string, Corner[]>();

  constructor(private readonly map: ArenaDocument) {
    this.shapes = map.obstacles.map((outline) => planes(outline.map(([x, y]) => [x / SUBUNITS, y / SUBUNITS])));
    this.order = byCell(map);
    this.joined = map.nodes.map(() => []);
    for (const [a, b] of map.edges) {
      this.joined[a].push(b);
      this.joined[b].push(a);
    }
    for (const ways of this.joined) ways.sort((a, b) => a - b);
  }

  /**
   * The place of a unit that set out from `from` (1/256 unit) for a node at tick `since`; `tick` may have a fraction.
   * Also whether it has arrived.
   */
  unitAt(from: Point, target: number, since: number, tick: number): { at: Point; arrived: boolean } {
    const passed = tick - since;
    // A tick before the order's belongs to a server that restarted.
    const ticks = passed > 0 && passed < 2 ** 31 ? passed : 0;
    return after(this.toNode(from, target), (ticks * SPEED) / this.map.rate);
  }

  /** The nearest node to a point (world units) that can be walked to from there, which is where a click sends units. */
  nodeNear(at: Point): number {
    let nearest = 0;
    for (const radius of [CELL, 3 * CELL, this.map.side * 2]) {
      const near = this.nearest(at, radius);
      const found = near.find((node) => this.isWalkable(at, this.map.nodes[node]));
      if (found !== undefined) return found;
      nearest = near[0] ?? 0;
    }
    return nearest;
  }

  private nearest(at: Point, radius: number): number[] {
    const near: { square: number; node: number }[] = [];
    for (const node of this.order) {
      const [dx, dy] = [this.map.nodes[node][0] - at[0], this.map.nodes[node][1] - at[1]];
      const square = dx * dx + dy * dy;
      const last = near.length < CANDIDATES ? Infinity : near[CANDIDATES - 1].square;
      if (!(square < last && square <= radius * radius)) continue;
      const place = near.findIndex((other) => other.square > square);
      near.splice(place < 0 ? near.length : place, 0, { square, node });
      near.length = Math.min(near.length, CANDIDATES);
    }
    return near.map(({ node }) => node);
  }

  /** Whether an avatar can walk straight from one point to another without touching an obstacle. */
  private isWalkable(a: Point, b: Point): boolean {
    return !this.shapes.some((shape) => crosses(shape, a, b));
  }

  private toNode(from: Point, target: number): Corner[] {
    const key = `${from[0]} ${from[1]} ${target}`;
    const known = this.known.get(key);
    if (known !== undefined) return known;
    const way = this.find([from[0] / SUBUNITS, from[1] / SUBUNITS], target);
    if (this.known.size >= MAX_WAYS) this.known.clear();
    this.known.set(key, way);
    return way;
  }

  private find(from: Point, target: number): Corner[] {
    const { nodes } = this.map;
    const corners: Corner[] = [{ at: from, far: 0 }];
    const way = this.path(this.nodeNear(from), Math.min(target, nodes.length - 1));
    // A way that starts between two nodes does not go back to the first.
    while (way.length > 1 && this.isWalkable(from, nodes[way[1]])) way.shift();
    for (const node of way) {
      const last = corners[corners.length - 1];
      const length = distance(last.at, nodes[node]);
      if (length > 0) corners.push({ at: nodes[node], far: last.far + length });
    }
    return corners;
  }

  /** The shortest way between two nodes, including both; empty if there is none. Ties go to the lower node. */
  private path(from: number, to: number): number[] {
    const { nodes } = this.map;
    const visits = new Map([[from, { before: from, travelled: 0 }]]);
    const open = new Heap();
    open.push({ estimate: distance(nodes[from], nodes[to]), travelled: 0, node: from });
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { node, travelled } = next;
      if (node === to) return trace(visits, from, to);
      if (travelled > (visits.get(node)?.travelled ?? 0)) continue;
      for (const neighbour of this.joined[node]) {
        const further = travelled + distance(nodes[node], nodes[neighbour]);
        const visit = visits.get(neighbour);
        if (visit !== undefined && further >= visit.travelled) continue;
        visits.set(neighbour, { before: node, travelled: further });
        open.push({ estimate: further + distance(nodes[neighbour], nodes[to]), travelled: further, node: neighbour });
      }
    }
    return [];
  }
}

function trace(visits: ReadonlyMap<number, { before: number }>, from: number, to: number): number[] {
  const way = [to];
  for (let node = to; node !== from; ) {
    node = visits.get(node)?.before ?? from;
    way.push(node);
  }
  return way.reverse();
}

/** The place at a distance along a way, and whether it is the end. */
function after(way: readonly Corner[], walked: number): { at: Point; arrived: boolean } {
  const next = way.findIndex((corner) => corner.far > walked);
  if (next < 0) return { at: way[way.length - 1].at, arrived: true };
  const [from, to] = [way[Math.max(next - 1, 0)], way[next]];
  const share = (walked - from.far) / (to.far - from.far);
  const between = (axis: 0 | 1): number => from.at[axis] + (to.at[axis] - from.at[axis]) * share;
  return { at: [between(0), between(1)], arrived: false };
}

/** The nodes in the order of their cells. */
function byCell({ side, nodes }: ArenaDocument): number[] {
  const width = Math.max(Math.ceil(side / CELL), 1);
  const cell = side / width;
  const index = (v: number): number => Math.min(Math.max(Math.trunc(v / cell), 0), width - 1);
  const cellOf = nodes.map(([x, y]) => index(y) * width + index(x));
  return nodes.map((_, node) => node).sort((a, b) => cellOf[a] - cellOf[b] || a - b);
}

/** An outline as half-planes, moved outwards, with every corner cut by another one: `ConvexPolygon::planes`. */
function planes(outline: readonly Point[]): Plane[] {
  const n = outline.length;
  const unit = ([x, y]: Point): Point | null => {
    const length = Math.sqrt(x * x + y * y);
    return length > 0 ? [x * (1 / length), y * (1 / length)] : null;
  };
  const normal = (i: number): Point => {
    const [a, b] = [outline[i % n], outline[(i + 1) % n]];
    return unit([b[1] - a[1], -(b[0] - a[0])]) ?? [0, 0];
  };
  const plane = ([nx, ny]: Point, [x, y]: Point): Plane => {
    const [px, py] = [x + nx * KEPT_CLEAR, y + ny * KEPT_CLEAR];
    return { nx, ny, offset: nx * px + ny * py };
  };
  return outline.flatMap((vertex, i) => {
    const [outward, before] = [normal(i), normal(i + n - 1)];
    const middle = unit([outward[0] + before[0], outward[1] + before[1]]);
    return [plane(outward, vertex), ...(middle === null ? [] : [plane(middle, vertex)])];
  });
}

/** Whether part of a line is within all half-planes. */
function crosses(shape: readonly Plane[], a: Point, b: Point): boolean {
  let [enter, exit] = [0, 1];
  for (const { nx, ny, offset } of shape) {
    const [atA, atB] = [nx * a[0] + ny * a[1] - offset, nx * b[0] + ny * b[1] - offset];
    if (atA > 0 && atB > 0) return false;
    if (atA > 0) enter = Math.max(enter, atA / (atA - atB));
    else if (atB > 0) exit = Math.min(exit, atA / (atA - atB));
  }
  return enter <= exit;
}

interface Open {
  readonly estimate: number;
  readonly travelled: number;
  readonly node: number;
}

function isBefore(a: Open, b: Open): boolean {
  return a.estimate < b.estimate || (a.estimate === b.estimate && a.node < b.node);
}

/** A heap that returns the smallest estimate first, and the lower node among equals. */
class Heap {
  private readonly items: Open[] = [];

  push(item: Open): void {
    const { items } = this;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(item, items[parent])) break;
      items[at] = items[parent];
      at = parent;
    }
    items[at] = item;
  }

  pop(): Open | undefined {
    const { items } = this;
    const [first, last] = [items[0], items.pop()];
    if (items.length === 0 || last === undefined) return last;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && isBefore(items[child + 1], items[child])) child++;
      if (!isBefore(items[child], last)) break;
      items[at] = items[child];
      at = child;
    }
    items[at] = last;
    return first;
  }
}
