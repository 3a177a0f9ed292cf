/** The messages of the observatory's channel: `docs/OBSERVATORY.md` as types. */

export type PolicyName = "broadcast" | "circle" | "attenuated" | "fov" | "a3" | "zoned" | "vfc" | "custom";

/** One κ; missing values are unbounded. */
export interface Bound {
  age_ms?: number;
  missed?: number;
  error?: number;
  share?: number;
}

export interface View {
  policy: PolicyName;
  view?: number;
  critical?: number;
  field?: number;
  interval_ms?: number;
  side?: number;
  aoi?: number;
  /** `null` stands for infinity. */
  zones?: (number | null)[];
  fields?: number[];
  kappa?: Bound[][];
  floor_degrees?: number;
  inner_facing?: number;
  /** The name of one of the game's custom policies. */
  custom?: string;
  /** What happens to objects behind walls; without `looser` they are not sent. */
  line_of_sight?: { looser?: number; always?: number };
  interaction_boost?: number;
  /** Other views for some objects; the first set that contains an object applies. */
  sets?: SetView[];
}

export type SetName = "team" | "others" | { kind: string };

export interface SetView {
  of: SetName;
  view: View;
}

/** What views can refer to in this game. */
export interface References {
  policies: string[];
  walls: boolean;
  kinds: string[];
}

export interface Hello extends References {
  type: "hello";
  name: string;
  game: string;
  round_ms: number;
  schema: string;
  document: unknown;
  presets: { name: string; view: View }[];
}

export interface Player {
  player: number;
  name: string;
  object: string;
  connected: boolean;
}

/** id, kind, x, y, yaw. */
export type WorldObject = [id: string, kind: number, x: number, y: number, yaw: number];

export interface World {
  type: "world";
  tick: number;
  objects: WorldObject[];
}

export interface States {
  type: "states";
  tick: number;
  objects: [id: string, lanes: number[]][];
}

/** 0 live, 1 lingering or frozen, 2 sent but not acknowledged. */
export type ReplicaState = 0 | 1 | 2;

export type Replica = [
  id: string,
  x: number,
  y: number,
  yaw: number,
  error: number,
  errorDegrees: number,
  staleMs: number,
  class_: number,
  state: ReplicaState,
];

export interface Observer {
  type: "observer";
  player: number;
  tick: number;
  view: View;
  policy: string;
  pivots: [x: number, y: number, yaw: number][];
  budget: number | null;
  replicas: Replica[];
}

export interface ObserverFigures {
  player: number;
  bytes_s: number;
  link_bytes_s: number;
  updates_s: number;
  bounds_kept: number;
  pairs: number;
  rtt_ms: number;
  error_degrees_p95: number;
  transport: string;
}

export const CAUSES = ["new", "age", "missed", "error", "refresh"] as const;

/** The cost of broadcasting, measured on sampled players. */
export interface BroadcastFigures {
  samples: number;
  /** To each player, states only. */
  bytes_s: number;
  /** The factor by which less is sent; null if nothing is sent. */
  ratio: number | null;
}

export interface Figures {
  type: "figures";
  tick: number;
  players: number;
  objects: number;
  tick_ms_p50: number;
  tick_ms_p99: number;
  bytes_s: number;
  /** Null for a few seconds at first, and after an operator changed a view or a budget. */
  broadcast: BroadcastFigures | null;
  bounds_kept: number;
  updates_s: number;
  fired: Record<(typeof CAUSES)[number], number>;
  error_degrees_p50: number;
  error_degrees_p95: number;
  coherence: number;
  observers: ObserverFigures[];
}

/** A region of a world on many servers. */
export interface Region {
  region: number;
  epoch: number;
  server: number;
  standby: number | null;
  /** `null` for an open side. */
  rect: [x0: number | null, y0: number | null, x1: number | null, y1: number | null];
  /** The cut that created it, which can be moved; null for the first region. Axis 0 is x. */
  cut: { axis: 0 | 1; at: number } | null;
  /** Its server has the right to act. These four are null where another process runs the region. */
  acting: boolean | null;
  owned: number | null;
  ghosts: number | null;
  leaving: number | null;
}

export interface RegionServerFigures {
  server: number;
  /** Share of a round that work takes; null: not known. */
  load: number | null;
  /** To the server that says so; null to itself, and until it is measured. */
  rtt_ms: number | null;
  players: number;
  draining: boolean;
}

/** An object that went from one region to another since the last message. */
export type Handoff = [id: string, from: number, to: number, x: number, y: number];

export interface Regions {
  type: "regions";
  tick: number;
  regions: Region[];
  servers: RegionServerFigures[];
  handoffs: Handoff[];
}

export type FromServer =
  | Hello
  | Regions
  | { type: "players"; players: Player[] }
  | World
  | States
  | Observer
  | Figures
  | { type: "error"; about: string; text: string };

export type Command =
  | { type: "drain"; server: number }
  | { type: "move-split"; region: number; at: number }
  | { type: "pick"; player: number | null }
  | { type: "view"; player: number | null; view: View | null }
  | { type: "budget"; player: number | null; bytes_s: number | null }
  | {
      type: "network";
      player: number;
      delay_ms: number;
      jitter_ms: number;
      loss: number;
      burst: number;
    };
