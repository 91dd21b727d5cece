// The data in the page of two dives: checked for consistency, and given types. The names of fields are those of the JSON of 'dbtime diff'.

import type { Unpacked } from "./unpack.ts";

/** A function, or a call path. Pairs are GOOD's, then BAD's; per call, times in nanoseconds. */
export interface DiveChange {
  /** The function, with its callers before it if it is a path. */
  path: string[];
  /** 0 if none was counted: it is known only from stacks, or not there. */
  calls: [number, number];
  /** On a CPU or off it. */
  own_ns: [number, number];
  /** With all that it called. */
  total_ns: [number, number];
}

/** Tables of the page, and the lists of the comparison that they show. */
export const DIVE_LISTS = ["only_good", "only_bad", "functions", "paths"] as const;
export type DiveList = (typeof DIVE_LISTS)[number];

export interface DiveDifference {
  dbtime: string;
  /** What 'dbtime diff' says before its tables: the answer, the two sides, and what the numbers are. */
  lines: string[];
  diff: Record<DiveList, DiveChange[]> & { problems: string[] };
  left_out: number;
}

/** Builds a difference of two dives from unpacked data. */
export function diveDifferenceOf({ json }: Unpacked): DiveDifference {
  const of = json as DiveDifference;
  const areWhole = DIVE_LISTS.every((list) => of.diff[list].every(({ path, calls, own_ns, total_ns }) => path.length > 0 && [calls, own_ns, total_ns].every(({ length }) => length === 2)));
  if (!areWhole) throw new Error("its data does not fit together");
  return of;
}

/** The function that a row is about: the last one of a call path. */
export function functionOf({ path }: DiveChange): string {
  return path.at(-1)!;
}
