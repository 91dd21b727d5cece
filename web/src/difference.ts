// The data in the page of two recordings: checked for consistency, and given types. The names of fields are those that the program writes;
// the comparison is the JSON of 'dbtime diff'.

import type { FlameSource, FlameTable, Recording } from "./data.ts";
import { recordedPaths } from "./paths.ts";
import { type Unpacked, within } from "./unpack.ts";
import { duration } from "./words.ts";

/** A difference of time, per unit of work; nanoseconds, or parts of all samples. */
export interface Change {
  good: number;
  bad: number;
  difference: number;
  /** `difference` as a part of the larger DB time. */
  percent: number;
  verdict: string;
}

export interface StatementChange extends Change {
  query: string | null;
  sql_id: string | null;
  text: string | null;
  cells: Omit<Change, "percent" | "verdict">[];
}

export interface LatencyChange {
  kind: string;
  name: string;
  good_per_unit: number;
  bad_per_unit: number;
  difference_ns_per_unit: number;
  quantities: { name: string; good_ns: number | null; bad_ns: number | null; verdict: string }[];
}

export interface CounterChange {
  source: string;
  name: string;
  good: number;
  bad: number;
  verdict: string;
}

/** Kinds of places in which time differs. */
export const PLACES = ["cells", "waits", "functions", "paths", "modules"] as const;
export type PlaceKind = (typeof PLACES)[number];

interface Dictionaries {
  dbtime: string;
  /** What 'dbtime diff' says before its tables. */
  lines: string[];
  diff: Record<PlaceKind, Change[]> & {
    headline: string;
    statement: string;
    conclusion: string;
    whole: string;
    per: string;
    value: "ns" | "samples";
    good: { work: number };
    db_time: Change;
    statements_per: string | null;
    statements: StatementChange[];
    latencies: LatencyChange[];
    counters: CounterChange[];
    problems: string[];
  };
  /** Where the differences are, in words. */
  places: Record<PlaceKind, string[]> & { of_statements: string[][] };
  left_out: number;
  states: string[];
  waits: string[];
  functions: string[];
  modules: number[];
  names_of_modules: string[];
  kernel: number[];
  code_modules: string[];
  /** For each function its place among them, from 1; 0 = none. */
  code_of_functions: number[];
  palette: Recording["palette"];
}

export interface Difference extends Omit<Dictionaries, "waits"> {
  frames: FlameSource;
  /** Time of stacks: of GOOD, and of BAD scaled to the same amount of work. */
  stacks: Omit<FlameTable, "ns">;
  sides: Record<Side, Float64Array>;
}

export const SIDES = ["bad", "good"] as const;
export type Side = (typeof SIDES)[number];

/** Builds a difference from unpacked data. */
export function differenceOf(unpacked: Unpacked): Difference {
  const { json, long, short, wide } = unpacked;
  const { waits, ...of } = json as Dictionaries;
  const wait = long("stacks.wait");
  const rows = wait.length;
  const stacks = { rows, wait, state: short("stacks.state"), leaf: long("stacks.leaf"), statement: new Uint32Array(rows), place: new Uint8Array(rows), samples: new Uint32Array(rows) };
  const frames: FlameSource = {
    ...of,
    paths: recordedPaths(of.functions, unpacked),
    waits: waits.map((label) => ({ label, class: label, event: label, recorded_event: label, class_by_cpu: label, kind: "event", idle: false })),
    state_groups: of.states.map(() => "unknown"),
    statements: [],
    are_times: of.diff.value === "ns",
    unit: of.diff.value === "ns" ? "time" : "samples",
  };
  within(stacks.wait, waits.length);
  within(stacks.state, of.states.length);
  within(of.code_of_functions, of.code_modules.length + 1);
  within(stacks.leaf, frames.paths.callers.length);
  return { ...of, frames, stacks, sides: { good: wide("stacks.good"), bad: wide("stacks.bad") } };
}

/** An amount per unit of work. */
export function amountOf({ diff }: Pick<Difference, "diff">, value: number): string {
  return diff.value === "samples" ? `${(value * 100).toFixed(1)} %` : duration(Math.round(Math.abs(value)));
}

/** The same with a sign; a dash for zero. */
export function signedOf(of: Pick<Difference, "diff">, value: number): string {
  return value === 0 ? "–" : `${value > 0 ? "+" : "−"}${amountOf(of, Math.abs(value))}`;
}
