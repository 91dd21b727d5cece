// Columns of the tree and of the functions of a dive: numbers in the units of the report.

import type { NumberName, Numbers } from "./dive_data.ts";
import { microseconds, milliseconds, percent } from "./words.ts";

export interface DiveColumn {
  /** The word for it in the address of the page. */
  word: string;
  name: string;
  number: (of: Numbers, row: number) => number;
  text: (of: Numbers, row: number) => string;
}

/** Some functions are known only from stacks: no call of them from begin to end could be counted. */
const NOT_COUNTED = "–";

const column = (word: NumberName, name: string, write: (number: number) => string, isOfCalls = false): DiveColumn => ({
  word,
  name,
  number: (of, row) => of[word][row]!,
  text: (of, row) => (isOfCalls && of.calls[row] === 0 ? NOT_COUNTED : write(of[word][row]!)),
});

export const CALLS = column("calls", "calls", String, true);
export const TOTAL = column("total", "total ms", milliseconds);
export const OWN = column("own", "self ms", milliseconds);
export const OFF = column("off", "off CPU ms", milliseconds);
export const MEAN = column("avg", "mean us", microseconds, true);
export const P99 = column("p99", "p99 us", microseconds, true);
export const MAX = column("max", "max us", microseconds, true);
export const MIN: DiveColumn = {
  ...column("min", "min us", microseconds, true),
  // Nothing takes no time: it was not recorded.
  text: (of, row) => (of.min[row] === 0 ? NOT_COUNTED : microseconds(of.min[row]!)),
};

/** The share of the time of all calls. What is not part of a call has none. */
export function shareColumn(callsNs: number, isOfCall: (row: number) => boolean): DiveColumn {
  return {
    word: "share",
    name: "% of calls",
    number: (of, row) => (isOfCall(row) ? of.total[row]! : 0),
    text: (of, row) => (isOfCall(row) ? percent(of.total[row]!, callsNs) : NOT_COUNTED),
  };
}
