// The ledger and the database's view of the cells that are chosen: the same sums as in the report.

import { DB_TIME, isDbTime, POOLED, RESTS, type Recording, SAMPLED, type Table } from "./data.ts";

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
  /** For DB time: by state, of sessions too short to be sampled individually, samples, how it was measured. */
  byState: number[];
  pooled: number;
  samples: number;
  mix: Mix;
}

/** Bits: there is a cell that is exact, sampled, an exact total without a sample. */
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
  const waits = of.waits.length;
  const isNotSampled = of.waits.map((wait) => wait.kind === "unknown" && wait.event === "not sampled");
  // By place and wait, and by state; a row without a bit does not exist.
  const places = SECTIONS.length * RESTS;
  const byState = new Float64Array(places * waits * states);
  const samples = new Float64Array(places * waits);
  const bits = new Uint8Array(places * waits);
  let pooled = 0;
  for (let at = 0; at < table.rows; at++) {
    if (!takes[at]) continue;
    const wait = table.wait[at]!;
    const row = table.place[at]! * waits + wait;
    const flags = table.flags[at]!;
    byState[row * states + table.state[at]!]! += table.ns[at]!;
    samples[row]! += table.samples[at]!;
    bits[row]! |= isNotSampled[wait] ? NOT_SPLIT_BIT : flags & SAMPLED ? SAMPLED_BIT : EXACT_BIT;
    if (flags & POOLED && isDbTime(table.place[at]!)) pooled += table.ns[at]!;
  }
  const found: Ledger = { rows: [], sums: SECTIONS.map(() => 0), byState: Array.from(of.states, () => 0), pooled, samples: 0, mix: null };
  let bitsOfDbTime = 0;
  for (let row = 0; row < bits.length; row++) {
    if (bits[row] === 0) continue;
    const place = Math.floor(row / waits);
    const section = Math.floor(place / RESTS);
    const ns = Array.from(byState.subarray(row * states, (row + 1) * states));
    const total = ns.reduce((sum, part) => sum + part, 0);
    found.rows.push({ section, rest: place % RESTS, wait: row % waits, ns, total, samples: samples[row]!, mix: mixOf(bits[row]!) });
    found.sums[section]! += total;
    if (section !== DB_TIME) continue;
    ns.forEach((part, state) => {
      found.byState[state]! += part;
    });
    found.samples += samples[row]!;
    bitsOfDbTime |= bits[row]!;
  }
  found.rows.sort((one, other) => one.section - other.section || other.total - one.total || one.rest - other.rest || one.wait - other.wait);
  found.mix = mixOf(bitsOfDbTime);
  return found;
}

/** Words for the sections. */
export const SECTIONS = ["DB time", "sessions waiting for work", "background processes"] as const;
export const SECTION_WORDS = ["db_time", "idle", "background"] as const;
