// Call paths: as they were recorded, and without the frames that all paths of a server begin with.

import { type Unpacked, within } from "./unpack.ts";

/** Has no caller. */
export const NO_NODE = -1;

/** A tree of functions, callers before those they call. */
export interface Paths {
  /** Of each place in it: the place of its caller, or NO_NODE, and its function. */
  callers: Int32Array;
  function_of: Uint32Array;
}

export interface RecordedPaths extends Paths {
  /** Not 0 where paths begin when the start of the server is left out. */
  begins: Uint8Array;
}

/** Other paths, and which of their places stands for each one of those that were recorded. */
export interface DrawnPaths extends Paths {
  place: Uint32Array;
}

/** Those of a page. */
export function recordedPaths(functions: string[], { long, short }: Pick<Unpacked, "long" | "short">): RecordedPaths {
  const function_of = long("nodes.function");
  within(function_of, functions.length);
  const callers = Int32Array.from(long("nodes.caller"), (back, node) => (back === 0 ? NO_NODE : node - back));
  if (callers.some((caller) => caller < NO_NODE)) throw new Error("its call paths have no begin");
  return { callers, function_of, begins: short("nodes.begins") };
}

/** The paths as they are drawn, each kind made when it is asked for. */
export class FlamePaths {
  private readonly made = new Map<boolean, DrawnPaths>();

  constructor(private readonly recorded: RecordedPaths) {}

  /** Whether there is a start of the server that can be left out. */
  get haveStart(): boolean {
    return this.recorded.begins.includes(1);
  }

  drawn(areWhole: boolean): DrawnPaths {
    const known = this.made.get(areWhole) ?? (areWhole ? whole : withoutStart)(this.recorded);
    this.made.set(areWhole, known);
    return known;
  }
}

function whole(paths: RecordedPaths): DrawnPaths {
  return { ...paths, place: Uint32Array.from(paths.callers, (_, node) => node) };
}

/** The paths without the start of the server. Two that differed there only are one. */
function withoutStart(paths: RecordedPaths): DrawnPaths {
  const callers: number[] = [];
  const function_of: number[] = [];
  const known = new Map<string, number>();
  const place = new Uint32Array(paths.callers.length);
  for (const [node, recorded] of paths.callers.entries()) {
    const caller = recorded === NO_NODE || paths.begins[node] ? NO_NODE : place[recorded]!;
    const key = `${caller} ${paths.function_of[node]}`;
    let found = known.get(key);
    if (found === undefined) {
      found = callers.length;
      known.set(key, found);
      callers.push(caller);
      function_of.push(paths.function_of[node]!);
    }
    place[node] = found;
  }
  return { callers: Int32Array.from(callers), function_of: Uint32Array.from(function_of), place };
}
