// How long the selected time is, and how much of it was recorded.

import type { Recording } from "./data.ts";
import type { Filter } from "./filter.ts";

/** Begin and end in microseconds: the recording's, cut to the filter. */
export function period(of: Recording, filter: Filter): [number, number] {
  const from = filter.from === null ? of.from_us : Math.max(of.from_us, filter.from * 1e6);
  const to = filter.to === null ? of.to_us : Math.min(of.to_us, filter.to * 1e6);
  return [from, Math.max(from, to)];
}

/** Its length in nanoseconds: for several snapshots, that of those whose last second is in it. */
export function elapsedNs(of: Recording, filter: Filter): number {
  if (of.periods) {
    const from = (filter.from ?? -Infinity) * 1e6;
    const to = (filter.to ?? Infinity) * 1e6;
    return of.periods.reduce((sum, [at, ns]) => (at >= from && at < to ? sum + ns : sum), 0);
  }
  const [from, to] = period(of, filter);
  return (to - from) * 1000;
}

/** What of it was recorded, in nanoseconds. */
export function recordedNs(of: Recording, from: number, to: number): number {
  let us = to - from;
  for (const [begin, end] of of.gaps) us -= Math.max(0, Math.min(end, to) - Math.max(begin, from));
  return us * 1000;
}
