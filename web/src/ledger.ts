// The ledger and the database's view of the cells that are chosen: the same sums as in the report.

import { DB_TIME, IDLE, POOLED, RESTS, type Recording, SAMPLED, type Table } from "./data.ts";

export type Mix = "exact" | "sampled" | "mixed" | null;

export interface LedgerRow {
  section: number;
  rest: number;
  wait: number;
  /** By state. */
  ns: number[];
  total: number;
  samples: number;
  mix: Mix;
}

export interface Ledger {
  /** The sections in order, in each the largest first. */
  rows: LedgerRow[];
  /** By section. */
  sums: number[];
  /** Of DB time: by state, of sessions too short to be sampled each, samples, how it came to be. */
  byState: number[];
  pooled: number;
  samples: number;
  mix: Mix;
}

/** Bits: there is a cell that is exact, sampled, an exact total into which no sample fell. */
const EXACT_BIT = 1;
const SAMPLED_BIT = 2;
const NOT_SPLIT_BIT = 4;

function mixOf(bits: number): Mix {
  if (bits & EXACT_BIT && bits & SAMPLED_BIT) return "mixed";
  if (bits & SAMPLED_BIT) return "sampled";
  return bits ? "exact" : null;
}

export function ledger(of: Recording, table: Table, takes: Uint8Array): Ledger {
  const states = of.states.length;
  const isNotSampled = of.waits.map((wait) => wait.kind === "unknown" && wait.event === "not sampled");
  const rows = new Map<number, LedgerRow & { bits: number }>();
  const sums = [0, 0, 0];
  const byState = new Array<number>(states).fill(0);
  let pooled = 0;
  let samples = 0;
  let bits = 0;
  for (let at = 0; at < table.rows; at++) {
    if (!takes[at]) continue;
    const place = table.place[at]!;
    const wait = table.wait[at]!;
    const key = place * of.waits.length + wait;
    let row = rows.get(key);
    if (!row) {
      row = {
        section: Math.floor(place / RESTS),
        rest: place % RESTS,
        wait,
        ns: new Array<number>(states).fill(0),
        total: 0,
        samples: 0,
        mix: null,
        bits: 0,
      };
      rows.set(key, row);
    }
    const ns = table.ns[at]!;
    const flags = table.flags[at]!;
    const bit = isNotSampled[wait] ? NOT_SPLIT_BIT : flags & SAMPLED ? SAMPLED_BIT : EXACT_BIT;
    row.ns[table.state[at]!]! += ns;
    row.total += ns;
    row.samples += table.samples[at]!;
    row.bits |= bit;
    sums[row.section]! += ns;
    if (row.section === DB_TIME) {
      byState[table.state[at]!]! += ns;
      samples += table.samples[at]!;
      bits |= bit;
      if (flags & POOLED) pooled += ns;
    }
  }
  const sorted = [...rows.values()].sort(
    (one, other) => one.section - other.section || other.total - one.total || one.rest - other.rest || one.wait - other.wait,
  );
  for (const row of sorted) row.mix = mixOf(row.bits);
  return { rows: sorted, sums, byState, pooled, samples, mix: mixOf(bits) };
}

export interface DatabaseView {
  dbTime: number;
  cpu: number;
  wait: number;
  /** From CPU and waits to DB time: what is added or taken off (below zero), in words. */
  steps: [string, number][];
  doubleCounted: number;
}

/** What the database can show, and the way from there to DB time; the steps add up exactly. */
export function databaseView(of: Recording, { rows, sums }: Ledger): DatabaseView {
  const inGroup = (wanted: (row: LedgerRow) => boolean, group: string | null) => {
    let sum = 0;
    for (const row of rows) {
      if (!wanted(row)) continue;
      row.ns.forEach((ns, state) => {
        if (group === null || of.state_groups[state] === group) sum += ns;
      });
    }
    return sum;
  };
  const isDbTime = (row: LedgerRow) => row.section === DB_TIME;
  const isOfKind = (kind: string) => (row: LedgerRow) => {
    const wait = of.waits[row.wait]!;
    return isDbTime(row) && !wait.idle && wait.kind === kind;
  };
  const isIdle = (row: LedgerRow) => row.section === IDLE;
  const isWithoutCpu = (row: LedgerRow) => isDbTime(row) && of.waits[row.wait]!.idle;
  const doubleCounted = inGroup(isOfKind("event"), "cpu");
  const insideIdle = inGroup(isIdle, "cpu");
  const unknown = isOfKind("unknown");
  return {
    dbTime: sums[DB_TIME]!,
    cpu: inGroup(isDbTime, "cpu") + insideIdle,
    wait: inGroup(isOfKind("event"), null),
    doubleCounted,
    steps: [
      ["CPU inside wait events: counted twice", -doubleCounted],
      ["CPU inside idle waits: not DB time", -insideIdle],
      ["Waiting for a CPU after a command came: called idle", inGroup(isWithoutCpu, "queue")],
      ["Waiting for a CPU outside of waits: not counted", inGroup(isOfKind("none"), "queue")],
      ["Blocked outside of waits: not counted", inGroup(isOfKind("none"), "blocked")],
      ["State not known, outside of waits", inGroup(isOfKind("none"), "unknown")],
      ["Wait not known, off CPU", inGroup(unknown, null) - inGroup(unknown, "cpu")],
    ],
  };
}

/** Words for the sections. */
export const SECTIONS = ["DB time", "sessions waiting for work", "background processes"] as const;
export const SECTION_WORDS = ["db_time", "idle", "background"] as const;
