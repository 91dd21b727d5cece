// The data in the page of a dive: checked for consistency, and given types. The names of fields are those that the program writes.

import { within } from "./unpack.ts";
import type { Unpacked } from "./unpack.ts";

/** What is known of each row of the tree, and of each function: counts, and nanoseconds. Without calls there is no min, avg, p99, max. */
export const NUMBERS = ["calls", "total", "own", "off", "min", "avg", "p99", "max"] as const;
export type NumberName = (typeof NUMBERS)[number];
export type Numbers = Record<NumberName, Float64Array>;

export interface CallKind {
  function: string;
  count: number;
  total_ns: number;
  min_ns: number | null;
  avg_ns: number | null;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number;
  /** Nanoseconds by state. */
  states: Record<string, number>;
}

export interface SampledFunction {
  function: string;
  module: string;
  own: number;
  total: number;
}

export interface SampledInterval {
  interval: string;
  samples: number;
}

interface Dictionaries {
  dbtime: string;
  /** What was traced, how, and what was noted. */
  source_lines: string[];
  /** How many calls, and what is exact. */
  exact_lines: string[];
  /** Interrupts and preemption. */
  foreign_lines: string[];
  problems: string[];
  /** Time of all calls: the whole that shares refer to. */
  calls_ns: number;
  calls: CallKind[];
  layers: { layer: string; state: string; ns: number }[];
  /** States, and their descriptions. */
  states: [string, string][];
  samples: { line: string; own: number; functions: SampledFunction[]; intervals: SampledInterval[] } | null;
  /** Roots of the tree that are not calls. */
  no_calls: number[];
  left_out_paths: number;
  left_out_functions: number;
  left_out_others: number;
  functions: string[];
  modules: number[];
  names_of_modules: string[];
}

/** The tree, callers before callees. */
export interface DivePaths extends Numbers {
  name: Uint32Array;
  /** Number of callers above. */
  depth: Uint32Array;
  /** Nanoseconds of callees that are left out. */
  hidden: Float64Array;
}

export interface Dive extends Omit<Dictionaries, "functions" | "modules" | "names_of_modules"> {
  /** Names of functions: NAME, or NAME [MODULE]. */
  names: string[];
  paths: DivePaths;
  functions: Numbers & { name: Uint32Array };
}

/** Builds a dive from unpacked data. */
export function diveOf({ json, long, wide }: Unpacked): Dive {
  const { functions, modules, names_of_modules, ...of } = json as Dictionaries;
  const names = functions.map((name, at) => named(name, names_of_modules[modules[at]!] ?? ""));
  const numbers = (table: string) => Object.fromEntries(NUMBERS.map((name) => [name, wide(`${table}.${name}`)])) as Numbers;
  const paths = { name: long("paths.name"), depth: long("paths.depth"), hidden: wide("paths.hidden"), ...numbers("paths") };
  const ofFunctions = { name: long("functions.name"), ...numbers("functions") };
  within(paths.name, names.length);
  within(ofFunctions.name, names.length);
  within(of.no_calls, paths.name.length);
  if (paths.depth.some((depth, at) => depth > (at === 0 ? 0 : paths.depth[at - 1]! + 1))) throw new Error("its data does not fit together");
  return { ...of, names, paths, functions: ofFunctions };
}

/** A function as traces write it. */
export function named(name: string, module: string): string {
  return module === "" ? name : `${name} [${module}]`;
}
