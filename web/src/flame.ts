// A flame graph's frames: call paths of the chosen DB time, with levels (wait, state, query …) below them.

import { DB_TIME, type FlameSource, type FlameTable, type Recording, RESTS, type Table } from "./data.ts";
import { type DrawnPaths, NO_NODE } from "./paths.ts";

/** What can stand below the call paths. */
export const LEVELS = ["wait", "state", "query"] as const;
export type Level = (typeof LEVELS)[number];
/** Which time is drawn. */
export const MODES = ["all", "on-cpu", "off-cpu"] as const;
export type Mode = (typeof MODES)[number];
/** Which end of a call path stands at the root. */
export const FIRST = ["callers", "callees"] as const;
export type First = (typeof FIRST)[number];

/** Of what a frame is: the root, a level, a function. */
export type Kind = "all" | Level | "function";

/** Frames, callers before those they call. */
export interface Flame {
  count: number;
  total: number;
  kinds: Kind[];
  kind: Uint8Array;
  /** Number of the wait, state, statement or function. */
  value: Uint32Array;
  caller: Int32Array;
  depth: Uint16Array;
  ns: Float64Array;
  samples: Float64Array;
  /** The same time on the other side of a comparison, and what of either is in the frame itself: this side, the other. */
  other: Float64Array;
  own: [Float64Array, Float64Array];
  /** Where it begins, in nanoseconds from the left. */
  from: Float64Array;
  /** Frames of each depth from left to right. */
  rows: Int32Array[];
}

export function flame(of: FlameSource, paths: DrawnPaths, table: FlameTable, takes: Uint8Array, mode: Mode, levels: readonly Level[], first: First = "callers"): Flame {
  const kinds: Kind[] = ["all", ...levels, "function"];
  const functionKind = kinds.length - 1;
  const kind = [0];
  const value = [0];
  const caller = [NO_NODE];
  const depth = [0];
  const ns = [0];
  const samples = [0];
  const other = [0];
  const add = (ofKind: number, ofValue: number, below: number) => {
    kind.push(ofKind);
    value.push(ofValue);
    caller.push(below);
    depth.push(depth[below]! + 1);
    ns.push(0);
    samples.push(0);
    other.push(0);
    return kind.length - 1;
  };
  // A level stands once on the same levels; a place in the call paths once on the same top level.
  const known = new Map<string, number>();
  const levelOf = (ofKind: number, ofValue: number, below: number) => {
    const key = `${below} ${ofKind} ${ofValue}`;
    const found = known.get(key) ?? add(ofKind, ofValue, below);
    known.set(key, found);
    return found;
  };
  const frames = new Map<number, number>();
  const nodes = paths.function_of.length;
  const way: number[] = [];
  // From the leaf to the root: paths that end alike have that end in common. Each leaf once on the same levels.
  const below = new Map<number, number>();
  const calleesFirst = (leaf: number, level: number) => {
    const known = frames.get(level * nodes + leaf);
    if (known !== undefined) return known;
    let frame = level;
    for (let at = leaf; at !== NO_NODE; at = paths.callers[at]!) {
      const key = frame * of.functions.length + paths.function_of[at]!;
      const next = below.get(key) ?? add(functionKind, paths.function_of[at]!, frame);
      below.set(key, next);
      frame = next;
    }
    frames.set(level * nodes + leaf, frame);
    return frame;
  };
  const callersFirst = (node: number, level: number) => {
    let at = node;
    let frame = frames.get(level * nodes + at);
    while (frame === undefined && at !== NO_NODE) {
      way.push(at);
      at = paths.callers[at]!;
      frame = at === NO_NODE ? level : frames.get(level * nodes + at);
    }
    while (way.length > 0) {
      at = way.pop()!;
      frame = add(functionKind, paths.function_of[at]!, frame!);
      frames.set(level * nodes + at, frame);
    }
    return frame!;
  };
  for (let row = 0; row < table.rows; row++) {
    const elsewhere = table.other?.[row] ?? 0;
    if (!takes[row] || (table.ns[row] === 0 && elsewhere === 0) || Math.floor(table.place[row]! / RESTS) !== DB_TIME) continue;
    const isOnCpu = of.state_groups[table.state[row]!] === "cpu";
    if ((mode === "on-cpu" && !isOnCpu) || (mode === "off-cpu" && isOnCpu)) continue;
    let level = 0;
    levels.forEach((name, at) => {
      const ofRow = name === "wait" ? table.wait[row]! : name === "state" ? table.state[row]! : table.statement[row]!;
      level = levelOf(at + 1, ofRow, level);
    });
    const frame = (first === "callers" ? callersFirst : calleesFirst)(paths.place[table.leaf![row]!]!, level);
    ns[frame]! += table.ns[row]!;
    samples[frame]! += table.samples[row]!;
    other[frame]! += elsewhere;
  }
  const own: [Float64Array, Float64Array] = [Float64Array.from(ns), Float64Array.from(other)];
  for (let frame = kind.length - 1; frame > 0; frame--) {
    ns[caller[frame]!]! += ns[frame]!;
    samples[caller[frame]!]! += samples[frame]!;
    other[caller[frame]!]! += other[frame]!;
  }
  return placed(of, { kinds, kind, value, caller, depth, ns, samples, other, own });
}

interface Frames {
  kinds: Kind[];
  kind: number[];
  value: number[];
  caller: number[];
  depth: number[];
  ns: number[];
  samples: number[];
  other: number[];
  own: [Float64Array, Float64Array];
}

/** Puts frames beside each other in the order of their names: they stay where they are, whatever else changes. */
function placed(of: FlameSource, { kinds, kind, value, caller, depth, ns, samples, other, own }: Frames): Flame {
  const count = kind.length;
  const ranks = new Map<Kind, Uint32Array>([
    ["wait", ranked(of.waits.map((wait) => wait.label))],
    ["state", Uint32Array.from(of.states, (_, state) => state)],
    ["query", ranked(of.statements.map((statement) => statement.query))],
    ["function", ranked(of.functions)],
  ]);
  const rank = (frame: number) => ranks.get(kinds[kind[frame]!]!)?.[value[frame]!] ?? 0;
  const below: number[][] = Array.from({ length: count }, () => []);
  // What is on the other side only has no width here.
  for (let frame = 1; frame < count; frame++) if (ns[frame]! > 0) below[caller[frame]!]!.push(frame);
  const from = new Float64Array(count);
  const rows: number[][] = [];
  let row = count > 1 ? [0] : [];
  while (row.length > 0) {
    rows.push(row);
    const next: number[] = [];
    for (const frame of row) {
      let at = from[frame]!;
      for (const child of below[frame]!.sort((one, other) => rank(one) - rank(other) || one - other)) {
        from[child] = at;
        at += ns[child]!;
        next.push(child);
      }
    }
    row = next;
  }
  return {
    count,
    total: ns[0]!,
    kinds,
    kind: Uint8Array.from(kind),
    value: Uint32Array.from(value),
    caller: Int32Array.from(caller),
    depth: Uint16Array.from(depth),
    ns: Float64Array.from(ns),
    samples: Float64Array.from(samples),
    other: Float64Array.from(other),
    own,
    from,
    rows: rows.map((frames) => Int32Array.from(frames)),
  };
}

function ranked(names: string[]): Uint32Array {
  const order = names.map((_, at) => at).sort((one, other) => (names[one]! < names[other]! ? -1 : names[one]! > names[other]! ? 1 : one - other));
  const rank = new Uint32Array(names.length);
  order.forEach((at, place) => {
    rank[at] = place;
  });
  return rank;
}

/** The frame at a place in the picture: at so many nanoseconds from the left, so deep; -1 for none. */
export function frameAt({ rows, from, ns }: Flame, at: number, depth: number): number {
  const row = rows[depth];
  if (!row) return -1;
  let low = 0;
  let high = row.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (from[row[middle]!]! <= at) low = middle;
    else high = middle - 1;
  }
  const frame = row[low]!;
  return at >= from[frame]! && at < from[frame]! + ns[frame]! ? frame : -1;
}

/** For each frame 1 when its name has the text in it, and the time of all that have, each once. */
export function found(of: FlameSource, flame: Flame, text: string): { is: Uint8Array; ns: number } {
  const wanted = text.toLowerCase();
  const isIn = (names: string[]) => Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
  const matches = new Map<Kind, Uint8Array>([
    ["wait", isIn(of.waits.map((wait) => wait.label))],
    ["state", isIn(of.states)],
    ["query", isIn(of.statements.map((statement) => `${statement.query} ${statement.text ?? ""}`))],
    ["function", isIn(of.functions)],
  ]);
  const is = new Uint8Array(flame.count);
  const isBelow = new Uint8Array(flame.count);
  let ns = 0;
  for (let frame = 0; frame < flame.count; frame++) {
    is[frame] = matches.get(flame.kinds[flame.kind[frame]!]!)?.[flame.value[frame]!] ?? 0;
    const caller = flame.caller[frame]!;
    const isInside = caller >= 0 && (isBelow[caller] || is[caller]);
    isBelow[frame] = isInside ? 1 : 0;
    if (is[frame] && !isInside) ns += flame.ns[frame]!;
  }
  return { is, ns };
}

export interface FunctionTime {
  function: number;
  self: number;
  total: number;
}

/** Every function: time in it, and in it and all it called. What was pushed off its CPU is in the function that was interrupted. */
export function functions(of: Recording, table: Table, takes: Uint8Array): FunctionTime[] {
  const { callers, function_of } = of.paths;
  const perLeaf = new Map<number, number>();
  for (let row = 0; row < table.rows; row++) {
    if (!takes[row] || Math.floor(table.place[row]! / RESTS) !== DB_TIME || table.ns[row] === 0) continue;
    const leaf = table.leaf![row]!;
    perLeaf.set(leaf, (perLeaf.get(leaf) ?? 0) + table.ns[row]!);
  }
  const self = new Float64Array(of.functions.length);
  const total = new Float64Array(of.functions.length);
  // The leaf for which a function was last counted: once for each path, however often it is on it.
  const counted = new Int32Array(of.functions.length).fill(NO_NODE);
  for (const [leaf, ns] of perLeaf) {
    const caller = callers[leaf]!;
    const isPreemption = function_of[leaf] === of.preempted && caller !== NO_NODE;
    self[function_of[isPreemption ? caller : leaf]!]! += ns;
    for (let node = leaf; node !== NO_NODE; node = callers[node]!) {
      const id = function_of[node]!;
      if (counted[id] === leaf) continue;
      counted[id] = leaf;
      total[id]! += ns;
    }
  }
  const times: FunctionTime[] = [];
  total.forEach((ns, id) => {
    if (ns > 0) times.push({ function: id, self: self[id]!, total: ns });
  });
  return times.sort((one, other) => other.self - one.self || other.total - one.total || one.function - other.function);
}
