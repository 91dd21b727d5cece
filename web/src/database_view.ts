// CPU and waits as the database counts them beside DB time: the same steps as in the report, and what chooses each.

import { DB_TIME, IDLE, type Recording } from "./data.ts";
import type { Dimension } from "./filter.ts";
import type { Ledger, LedgerRow } from "./ledger.ts";

/** Some of the cells of the ledger: their time, and where some of that is. */
interface Part {
  ns: number;
  wait_class: string[];
  state: string[];
}

/** Words that choose a part, and nothing else of DB time. */
export type Words = ReadonlyMap<Dimension, string[]>;
export const NONE: Words = new Map();

export interface Step {
  words: string;
  /** What is added, or subtracted (below zero). */
  ns: number;
  /** None if it is not DB time. */
  chooses: Words;
}

export interface DatabaseView {
  dbTime: number;
  cpu: number;
  wait: number;
  doubleCounted: number;
  /** From CPU and waits to DB time. */
  steps: Step[];
  /** CPU and waits themselves, and waits without the CPU in them. */
  choosesCpu: Words;
  choosesWait: Words;
  choosesOffCpu: Words;
}

function isOfDbTime(row: LedgerRow): boolean {
  return row.section === DB_TIME;
}

function isOfIdle(row: LedgerRow): boolean {
  return row.section === IDLE;
}

const is = (wanted: string) => (group: string) => group === wanted;

function isOffCpu(group: string): boolean {
  return group !== "cpu";
}

/** What the database can show, and the steps from there to DB time, which add up exactly. */
export function databaseView(of: Recording, { rows, sums }: Ledger): DatabaseView {
  const part = (wanted: (row: LedgerRow) => boolean, isIn: (group: string) => boolean): Part => {
    let sum = 0;
    const classes = new Set<string>();
    const states = of.states.map(() => false);
    for (const row of rows) {
      if (!wanted(row)) continue;
      row.ns.forEach((ns, state) => {
        if (ns === 0 || !isIn(of.state_groups[state]!)) return;
        sum += ns;
        classes.add(of.waits[row.wait]!.class_by_cpu);
        states[state] = true;
      });
    }
    return { ns: sum, wait_class: [...classes], state: of.states.filter((_, state) => states[state]) };
  };
  const isOfKind = (kind: string) => (row: LedgerRow) => {
    const wait = of.waits[row.wait]!;
    return isOfDbTime(row) && !wait.idle && wait.kind === kind;
  };
  const isWithoutCpu = (row: LedgerRow) => isOfDbTime(row) && of.waits[row.wait]!.idle;
  const twice = part(isOfKind("event"), is("cpu"));
  const insideIdle = part(isOfIdle, is("cpu"));
  const cpu = part(isOfDbTime, is("cpu"));
  const wait = part(isOfKind("event"), () => true);
  const added = (words: string, what: Part): Step => ({ words, ns: what.ns, chooses: both(what) });
  return {
    dbTime: sums[DB_TIME]!,
    cpu: cpu.ns + insideIdle.ns,
    wait: wait.ns,
    doubleCounted: twice.ns,
    steps: [
      { words: "CPU inside wait events: counted twice", ns: -twice.ns, chooses: both(twice) },
      { words: "CPU inside idle waits: not DB time", ns: -insideIdle.ns, chooses: NONE },
      added("Waiting for a CPU after a command came: called idle", part(isWithoutCpu, is("queue"))),
      added("Waiting for a CPU outside of waits: not counted", part(isOfKind("none"), is("queue"))),
      added("Blocked outside of waits: not counted", part(isOfKind("none"), is("blocked"))),
      added("State not known, outside of waits", part(isOfKind("none"), is("unknown"))),
      added("Wait not known, off CPU", part(isOfKind("unknown"), isOffCpu)),
    ],
    choosesCpu: chosenBy(cpu, ["state"]),
    choosesWait: chosenBy(wait, ["wait_class"]),
    choosesOffCpu: both(part(isOfKind("event"), isOffCpu)),
  };
}

/** A part without any time cannot be chosen. */
function chosenBy(part: Part, of: ("wait_class" | "state")[]): Words {
  return part.ns === 0 ? NONE : new Map(of.map((dimension) => [dimension, part[dimension]]));
}

function both(part: Part): Words {
  return chosenBy(part, ["wait_class", "state"]);
}
