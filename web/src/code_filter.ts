// Which cells with stacks count when functions or modules are chosen: those that have all of them on their call path.

import type { Recording, Table } from "./data.ts";
import { NO_NODE } from "./paths.ts";

type Code = Pick<Recording, "functions" | "code_modules" | "code_of_functions" | "codeOnCpu" | "codeOffCpu" | "paths" | "state_groups">;

/** Keeps the cells whose path has these functions. */
export function keepFunctions(of: Code, table: Table, takes: Uint8Array, words: readonly string[]): void {
  const leaf = table.leaf!;
  for (const word of words) {
    const has = onTheWay(of, Uint8Array.from(of.functions, (name) => (name === word ? 1 : 0)));
    for (let row = 0; row < takes.length; row++) takes[row]! &= has[leaf[row]!]!;
  }
}

/** Keeps the cells whose path has code of these modules. If no code on it is known, its time still belongs to a module. */
export function keepModules(of: Code, table: Table, takes: Uint8Array, words: readonly string[]): void {
  const leaf = table.leaf!;
  const isOnCpu = of.state_groups.map((group) => group === "cpu");
  for (const word of words) {
    const isIt = Uint8Array.from(of.code_modules, (name) => (name === word ? 1 : 0));
    const has = onTheWay(of, Uint8Array.from(of.code_of_functions, (module) => (module > 0 ? isIt[module - 1]! : 0)));
    const [onCpu, offCpu] = [of.codeOnCpu, of.codeOffCpu].map((own) => has.map((isOnIt, node) => isOnIt | isIt[own[node]!]!)) as [Uint8Array, Uint8Array];
    for (let row = 0; row < takes.length; row++) takes[row]! &= (isOnCpu[table.state[row]!] ? onCpu : offCpu)[leaf[row]!]!;
  }
}

/** For each place in call paths: 1 if one of these functions is on its path from the root. */
function onTheWay({ paths }: Code, isIt: Uint8Array): Uint8Array {
  const { callers, function_of } = paths;
  const has = new Uint8Array(callers.length);
  // Callers come before their callees.
  for (let node = 0; node < has.length; node++) {
    const caller = callers[node]!;
    has[node] = isIt[function_of[node]!]! | (caller === NO_NODE ? 0 : has[caller]!);
  }
  return has;
}
