// Time by function: in it, and in it and all it called.

import { isDbTime, type Recording, type Table } from "./data.ts";
import { NO_NODE } from "./paths.ts";

export interface FunctionTime {
  function: number;
  self: number;
  total: number;
}

export class TimesByFunction {
  /** Not 0 for the first place of a function on its path: however often it is on it, its time counts once. */
  private readonly isFirst: Uint8Array;

  constructor(private readonly of: Pick<Recording, "functions" | "paths" | "preempted">) {
    const { callers, function_of } = of.paths;
    this.isFirst = new Uint8Array(callers.length);
    for (let node = 0; node < callers.length; node++) {
      let above = callers[node]!;
      while (above !== NO_NODE && function_of[above] !== function_of[node]) above = callers[above]!;
      this.isFirst[node] = above === NO_NODE ? 1 : 0;
    }
  }

  /** For the cells that are taken. Preempted time is that of the function that was interrupted. */
  times(table: Table, takes: Uint8Array): FunctionTime[] {
    const { functions, preempted } = this.of;
    const { callers, function_of } = this.of.paths;
    const ns = new Float64Array(callers.length);
    for (let row = 0; row < table.rows; row++) if (takes[row] && isDbTime(table.place[row]!)) ns[table.leaf![row]!]! += table.ns[row]!;
    const self = new Float64Array(functions.length);
    const total = new Float64Array(functions.length);
    for (let node = 0; node < ns.length; node++) {
      if (ns[node] === 0) continue;
      const isPreemption = function_of[node] === preempted && callers[node] !== NO_NODE;
      self[function_of[isPreemption ? callers[node]! : node]!]! += ns[node]!;
    }
    // Callers come before their callees.
    for (let node = ns.length - 1; node >= 0; node--) {
      if (this.isFirst[node]) total[function_of[node]!]! += ns[node]!;
      if (callers[node] !== NO_NODE) ns[callers[node]!]! += ns[node]!;
    }
    const times: FunctionTime[] = [];
    for (let id = 0; id < total.length; id++) if (total[id]! > 0) times.push({ function: id, self: self[id]!, total: total[id]! });
    return times.toSorted((one, other) => other.self - one.self || other.total - one.total || one.function - other.function);
  }
}
