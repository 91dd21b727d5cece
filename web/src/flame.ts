// A flame graph's frames: call paths of the chosen DB time, with levels (wait, state, query …) below them.

import { type FlameSource, type FlameTable, isDbTime } from "./data.ts";
import { Frames } from "./frames.ts";
import { type DrawnPaths, type First, FlamePaths, NO_NODE, ranked, sortedBy } from "./paths.ts";

/** Levels that can be below the call paths. */
export const LEVELS = ["wait", "state", "query"] as const;
export type Level = (typeof LEVELS)[number];
/** Which time is drawn. */
export const MODES = ["all", "on-cpu", "off-cpu"] as const;
export type Mode = (typeof MODES)[number];
/** What a frame is: the root, a level, a function. */
export type Kind = "all" | Level | "function";

/** Frames, callers before their callees. */
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
  /** In a comparison: the same time on the other side, and the time in the frame itself: on this side, on the other. */
  other: Float64Array;
  own: [Float64Array, Float64Array];
  /** Where it begins, in nanoseconds from the left. */
  from: Float64Array;
  /** Frames of each depth from left to right. */
  rows: Uint32Array[];
}

/** What is drawn, and how. */
export interface Shape {
  mode: Mode;
  levels: readonly Level[];
  first: First;
  /** With the start of the server. */
  areWhole: boolean;
}

/** Cells in the order of their frames: by the values of their levels, then by their places in paths. */
interface Order {
  paths: DrawnPaths;
  cells: Uint32Array;
  /** For each of these the number of its combination of values, and its place in the paths. */
  combination: Uint32Array;
  leaves: Uint32Array;
  /** These values, one combination after the other. */
  values: Uint32Array;
}

/** Time of cells on one side of a comparison, and on the other. */
export interface Sides {
  ns: Float64Array;
  other?: Float64Array;
}

/** Flame graphs of the cells of a table. Their order is found once for each shape: a graph is then one pass over the cells. */
export class Flames {
  readonly paths: FlamePaths;
  private readonly orders = new Map<string, Order>();

  constructor(
    private readonly of: FlameSource,
    private readonly table: FlameTable,
  ) {
    this.paths = new FlamePaths(of.paths, of.functions, table.leaf!);
  }

  /** Draws the cells that are taken. */
  draw(shape: Shape, takes: Uint8Array, { ns, other }: Sides = this.table): Flame {
    const { levels } = shape;
    const { samples } = this.table;
    const { paths, cells, combination, leaves, values } = this.order(shape);
    const { callers, function_of, depth } = paths;
    const { length } = levels;
    const frames = new Frames(["all", ...levels, "function"], other !== undefined);
    // The path to the frame that was added last: levels, and places in the paths with their frames.
    const levelFrames = new Uint32Array(length + 1);
    let levelsOf = -1;
    const way: number[] = [];
    const wayFrames: number[] = [];
    const missing: number[] = [];
    const frameOf = (combined: number, leaf: number): number => {
      if (combined !== levelsOf) {
        let same = 0;
        if (levelsOf >= 0) while (same < length && values[levelsOf * length + same] === values[combined * length + same]) same++;
        for (let level = same; level < length; level++) levelFrames[level + 1] = frames.add(level + 1, values[combined * length + level]!, levelFrames[level]!);
        way.length = 0;
        levelsOf = combined;
      }
      let node = leaf;
      let below = depth[node]!;
      for (; node !== NO_NODE && !(below < way.length && way[below] === node); below--) {
        missing.push(node);
        node = callers[node]!;
      }
      way.length = below + 1;
      while (missing.length > 0) {
        node = missing.pop()!;
        wayFrames[way.length] = frames.add(length + 1, function_of[node]!, way.length === 0 ? levelFrames[length]! : wayFrames[way.length - 1]!);
        way.push(node);
      }
      return wayFrames[way.length - 1]!;
    };
    for (let at = 0; at < cells.length; ) {
      const [combined, leaf] = [combination[at]!, leaves[at]!];
      let [ofThis, ofOther, count] = [0, 0, 0];
      for (; at < cells.length && leaves[at] === leaf && combination[at] === combined; at++) {
        const cell = cells[at]!;
        if (!takes[cell] || (ns[cell] === 0 && !other?.[cell])) continue;
        ofThis += ns[cell]!;
        count += samples[cell]!;
        if (other) ofOther += other[cell]!;
      }
      if (ofThis === 0 && ofOther === 0) continue;
      frames.give(frameOf(combined, leaf), ofThis, count, ofOther);
    }
    return frames.placed();
  }

  private order({ mode, levels, first, areWhole }: Shape): Order {
    const key = `${mode} ${levels.join()} ${first} ${areWhole}`;
    let order = this.orders.get(key);
    if (!order) {
      order = this.ordered(this.paths.drawn(areWhole, first), mode, levels);
      this.orders.set(key, order);
    }
    return order;
  }

  private ordered(paths: DrawnPaths, mode: Mode, levels: readonly Level[]): Order {
    const { of, table } = this;
    const isOfMode = of.state_groups.map((group) => mode === "all" || (group === "cpu") === (mode === "on-cpu"));
    const inMode = new Uint32Array(table.rows);
    let count = 0;
    for (let row = 0; row < table.rows; row++) if (isDbTime(table.place[row]!) && isOfMode[table.state[row]!]) inMode[count++] = row;
    const columns = levels.map((level) => {
      if (level === "wait") return { of: table.wait, rank: ranked(of.waits.map((wait) => wait.label)) };
      if (level === "state") return { of: table.state, rank: Uint32Array.from(of.states, (_, state) => state) };
      return { of: table.statement, rank: ranked(of.statements.map((statement) => statement.query)) };
    });
    // A combination is one number, which sorts like the names.
    const numbers = new Map<number, number>();
    const combination = new Uint32Array(table.rows);
    for (let at = 0; at < count; at++) {
      let key = 0;
      for (const { of: column, rank } of columns) key = key * rank.length + rank[column[inMode[at]!]!]!;
      let number = numbers.get(key);
      if (number === undefined) numbers.set(key, (number = numbers.size));
      combination[inMode[at]!] = number;
    }
    const rank = new Uint32Array(numbers.size);
    const values = new Uint32Array(numbers.size * levels.length);
    const named = columns.map(({ rank: ranks }) => sortedBy(ranks.length, ranks.length, (value) => ranks[value]!));
    for (const [place, key] of [...numbers.keys()].toSorted((one, other) => one - other).entries()) {
      rank[numbers.get(key)!] = place;
      let rest = key;
      for (let level = levels.length - 1; level >= 0; level--) {
        const names = named[level]!;
        values[place * levels.length + level] = names[rest % names.length]!;
        rest = Math.floor(rest / names.length);
      }
    }
    const rows = inMode.subarray(0, count);
    const byPlace = sortedBy(count, paths.callers.length, (row) => paths.place[table.leaf![row]!]!, rows);
    const cells = sortedBy(count, numbers.size, (row) => rank[combination[row]!]!, byPlace);
    return { paths, cells, combination: cells.map((row) => rank[combination[row]!]!), leaves: cells.map((row) => paths.place[table.leaf![row]!]!), values };
  }
}

/** The frame at a place in the picture: this many nanoseconds from the left, at this depth; -1 for none. */
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

/** Prefix of a module's name in a search for all its frames. */
export const IN_MODULE = "in:";

/** For each frame 1 if its name contains the text, or if it is of the module of that name, and the time of all these, each once. */
export function found(of: FlameSource, flame: Flame, text: string): { is: Uint8Array; ns: number } {
  const wanted = text.toLowerCase();
  const module = text.startsWith(IN_MODULE) ? of.code_modules.indexOf(text.slice(IN_MODULE.length)) + 1 : 0;
  const isIn = (names: string[]) => Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
  const matches = new Map<Kind, Uint8Array>([
    ["wait", isIn(of.waits.map((wait) => wait.label))],
    ["state", isIn(of.states)],
    ["query", isIn(of.statements.map((statement) => `${statement.query} ${statement.text ?? ""}`))],
    ["function", module > 0 ? Uint8Array.from(of.code_of_functions, (code) => (code === module ? 1 : 0)) : isIn(of.functions)],
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
