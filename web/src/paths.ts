// Call paths: as they were recorded, and without the frames that all paths of a server begin with.

import { type Unpacked, within } from "./unpack.ts";

/** Stands for no caller. */
export const NO_NODE = -1;

/** A tree of functions, callers before their callees. */
export interface Paths {
  /** For each place in it: the place of its caller, or NO_NODE, and its function. */
  callers: Int32Array;
  function_of: Uint32Array;
}

/** Which end of a path is drawn first. */
export const FIRST = ["callers", "callees"] as const;
export type First = (typeof FIRST)[number];

export interface RecordedPaths extends Paths {
  /** Not 0 where paths begin when the start of the server is left out. */
  begins: Uint8Array;
}

/** Derived paths, numbered in the order in which they are drawn: callees after their caller, siblings by name. */
export interface DrawnPaths extends Paths {
  /** How many callers each place has. */
  depth: Uint16Array;
  /** For each recorded place that has time: the one that represents it. */
  place: Uint32Array;
}

/** The paths of a page. */
export function recordedPaths(functions: string[], { long, short }: Pick<Unpacked, "long" | "short">): RecordedPaths {
  const function_of = long("nodes.function");
  within(function_of, functions.length);
  const back = long("nodes.caller");
  const callers = new Int32Array(back.length);
  for (let node = 0; node < callers.length; node++) {
    callers[node] = back[node] === 0 ? NO_NODE : node - back[node]!;
    if (callers[node]! < NO_NODE) throw new Error("its call paths have no begin");
  }
  return { callers, function_of, begins: short("nodes.begins") };
}

/** The paths as they are drawn, each kind made on demand. */
export class FlamePaths {
  private readonly made = new Map<string, DrawnPaths>();
  private readonly rank: Uint32Array;

  /** `leaves` are the places that have time. */
  constructor(
    private readonly recorded: RecordedPaths,
    functions: string[],
    private readonly leaves: Uint32Array,
  ) {
    this.rank = ranked(functions);
  }

  /** Whether there is a start of the server that can be left out. */
  get haveStart(): boolean {
    return this.recorded.begins.includes(1);
  }

  drawn(areWhole: boolean, first: First): DrawnPaths {
    const key = `${areWhole} ${first}`;
    let paths = this.made.get(key);
    if (!paths) {
      if (first === "callees") paths = calleesFirst(this.drawn(areWhole, "callers"), this.leaves, this.rank);
      else paths = inOrder(areWhole || !this.haveStart ? this.recorded : withoutStart(this.recorded), this.rank);
      this.made.set(key, paths);
    }
    return paths;
  }
}

/** For each name its rank among all. */
export function ranked(names: string[]): Uint32Array {
  const order = names.map((_, at) => at).toSorted((one, other) => (names[one]! < names[other]! ? -1 : names[one]! > names[other]! ? 1 : one - other));
  const rank = new Uint32Array(names.length);
  order.forEach((at, place) => {
    rank[at] = place;
  });
  return rank;
}

/** The paths without the start of the server, and the place of each recorded one. Two that differed only there become one. */
function withoutStart({ callers: recorded, function_of: functions, begins }: RecordedPaths): Paths & { place: Uint32Array } {
  const callers: number[] = [];
  const function_of: number[] = [];
  const known = new Map<number, number>();
  const place = new Uint32Array(recorded.length);
  for (let node = 0; node < recorded.length; node++) {
    const caller = recorded[node] === NO_NODE || begins[node] ? NO_NODE : place[recorded[node]!]!;
    const key = functions[node]! * (recorded.length + 1) + caller + 1;
    let found = known.get(key);
    if (found === undefined) {
      found = callers.length;
      known.set(key, found);
      callers.push(caller);
      function_of.push(functions[node]!);
    }
    place[node] = found;
  }
  return { callers: Int32Array.from(callers), function_of: Uint32Array.from(function_of), place };
}

/** The same paths, numbered as they are drawn. */
function inOrder(paths: Paths & { place?: Uint32Array }, rank: Uint32Array): DrawnPaths {
  const count = paths.callers.length;
  // Siblings as a linked list, built from the last name to the first.
  const byName = sortedBy(count, rank.length, (node) => rank[paths.function_of[node]!]!);
  const firstCallee = new Int32Array(count + 1).fill(NO_NODE);
  const nextCallee = new Int32Array(count);
  for (let at = count - 1; at >= 0; at--) {
    const node = byName[at]!;
    const caller = paths.callers[node]! + 1;
    nextCallee[node] = firstCallee[caller]!;
    firstCallee[caller] = node;
  }
  const callers = new Int32Array(count);
  const function_of = new Uint32Array(count);
  const depth = new Uint16Array(count);
  const numbers = new Uint32Array(count);
  let next = 0;
  let node = firstCallee[0]!;
  while (node !== NO_NODE) {
    const before = paths.callers[node]!;
    numbers[node] = next;
    callers[next] = before === NO_NODE ? NO_NODE : numbers[before]!;
    depth[next] = before === NO_NODE ? 0 : depth[callers[next]!]! + 1;
    function_of[next] = paths.function_of[node]!;
    next++;
    let behind = firstCallee[node + 1]!;
    // Back to the nearest caller that has another callee.
    for (let at = node; behind === NO_NODE && at !== NO_NODE; at = paths.callers[at]!) behind = nextCallee[at]!;
    node = behind;
  }
  const { place } = paths;
  return { callers, function_of, depth, place: place ? place.map((found) => numbers[found]!) : numbers };
}

/** Each path from its leaf to its root; those with the same end share it. */
function calleesFirst(paths: DrawnPaths, leaves: Uint32Array, rank: Uint32Array): DrawnPaths {
  const recordedLeaves = [...new Set(leaves)];
  const distinct = [...new Set(recordedLeaves.map((leaf) => paths.place[leaf]!))];
  const nameAt = (node: number) => rank[paths.function_of[node]!]!;
  const compare = (one: number, other: number) => {
    let [a, b] = [one, other];
    while (a !== NO_NODE && b !== NO_NODE && paths.function_of[a] === paths.function_of[b]) {
      a = paths.callers[a]!;
      b = paths.callers[b]!;
    }
    return a === NO_NODE || b === NO_NODE ? a - b : nameAt(a) - nameAt(b);
  };
  const callers: number[] = [];
  const function_of: number[] = [];
  const depth: number[] = [];
  const ends = new Map<number, number>();
  const way: number[] = [];
  for (const leaf of distinct.toSorted(compare)) {
    let at = 0;
    let node = leaf;
    while (node !== NO_NODE && at < way.length && function_of[way[at]!] === paths.function_of[node]) {
      node = paths.callers[node]!;
      at++;
    }
    way.length = at;
    for (; node !== NO_NODE; node = paths.callers[node]!) {
      callers.push(way.at(-1) ?? NO_NODE);
      function_of.push(paths.function_of[node]!);
      depth.push(way.length);
      way.push(callers.length - 1);
    }
    ends.set(leaf, way.at(-1)!);
  }
  const place = new Uint32Array(paths.place.length);
  for (const leaf of recordedLeaves) place[leaf] = ends.get(paths.place[leaf]!)!;
  return { callers: Int32Array.from(callers), function_of: Uint32Array.from(function_of), depth: Uint16Array.from(depth), place };
}

/** Numbers below `count` by a key below `keys`; equal ones in their order, or in the order of `before`. */
export function sortedBy(count: number, keys: number, key: (number: number) => number, before?: Uint32Array): Uint32Array {
  const ends = new Uint32Array(keys + 1);
  for (let number = 0; number < count; number++) ends[key(before ? before[number]! : number) + 1]!++;
  for (let at = 0; at < keys; at++) ends[at + 1]! += ends[at]!;
  const sorted = new Uint32Array(count);
  for (let at = 0; at < count; at++) {
    const number = before ? before[at]! : at;
    sorted[ends[key(number)]!++] = number;
  }
  return sorted;
}
