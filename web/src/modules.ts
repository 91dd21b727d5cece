// Time by module: in its own code, and in all that went through that code.

import { isDbTime, type Recording, type Table } from "./data.ts";
import { NO_NODE } from "./paths.ts";

export interface ModuleTime {
  module: number;
  self: number;
  /** With all that its code called. */
  total: number;
}

export class TimesByModule {
  /** For each place in call paths, not 0 if it is the first one of its module on the path. */
  private readonly isFirst: Uint8Array;
  private readonly isOnCpu: boolean[];

  constructor(private readonly of: Pick<Recording, "code_modules" | "code_of_functions" | "codeOnCpu" | "codeOffCpu" | "paths" | "state_groups">) {
    const { callers, function_of } = of.paths;
    this.isFirst = new Uint8Array(callers.length);
    for (let node = 0; node < callers.length; node++) {
      const module = of.code_of_functions[function_of[node]!]!;
      if (module > 0 && !this.isOn(callers[node]!, module - 1)) this.isFirst[node] = 1;
    }
    this.isOnCpu = of.state_groups.map((group) => group === "cpu");
  }

  /** For the cells that are taken. */
  times(table: Table, takes: Uint8Array): ModuleTime[] {
    const { code_modules, code_of_functions, codeOnCpu, codeOffCpu } = this.of;
    const { callers, function_of } = this.of.paths;
    const [onCpu, offCpu] = [new Float64Array(callers.length), new Float64Array(callers.length)];
    for (let row = 0; row < table.rows; row++) {
      if (takes[row] && isDbTime(table.place[row]!)) (this.isOnCpu[table.state[row]!] ? onCpu : offCpu)[table.leaf![row]!]! += table.ns[row]!;
    }
    const self = new Float64Array(code_modules.length);
    const total = new Float64Array(code_modules.length);
    const below = new Float64Array(callers.length);
    // Callers come before their callees.
    for (let node = callers.length - 1; node >= 0; node--) {
      for (const [ns, code] of [[onCpu[node]!, codeOnCpu], [offCpu[node]!, codeOffCpu]] as const) {
        if (ns === 0) continue;
        const module = code[node]!;
        self[module]! += ns;
        below[node]! += ns;
        // If no code on the path is known, it belongs to a module that is not on it.
        if (!this.isOn(node, module)) total[module]! += ns;
      }
      if (this.isFirst[node]) total[code_of_functions[function_of[node]!]! - 1]! += below[node]!;
      if (callers[node] !== NO_NODE) below[callers[node]!]! += below[node]!;
    }
    const found: ModuleTime[] = [];
    for (let module = 0; module < total.length; module++) if (total[module]! > 0) found.push({ module, self: self[module]!, total: total[module]! });
    return found.toSorted((one, other) => other.self - one.self || other.total - one.total || one.module - other.module);
  }

  /** Whether code of a module is on the path to a place. */
  private isOn(node: number, module: number): boolean {
    const { callers, function_of } = this.of.paths;
    for (let at = node; at !== NO_NODE; at = callers[at]!) if (this.of.code_of_functions[function_of[at]!] === module + 1) return true;
    return false;
  }
}
