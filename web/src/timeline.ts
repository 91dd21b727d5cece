// Average active sessions over time: DB time of each bucket divided by its length, by the values of one dimension.

import { isDbTime, type Recording, type Table } from "./data.ts";
import { period, recordedNs } from "./elapsed.ts";
import { chosen, type Dimension, factOf, type Filter, noFilter, tableOf } from "./filter.ts";
import { nameOr, oneLine } from "./words.ts";

/** What sessions can be grouped by. */
export const TIMELINE_BY = ["wait_class", "wait", "state", "query", "user", "application", "database", "program"] as const;
export type TimelineBy = (typeof TIMELINE_BY)[number];

/** Values shown individually; most buckets. */
const TOP = 8;
const MOST_BUCKETS = 240;
const ROUND = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

export interface TimelineValue {
  /** Word of the filter; null for the others. */
  word: string | null;
  label: string;
  ns: number;
}

export interface Timeline {
  by: TimelineBy;
  width_s: number;
  /** From the bottom to the top. */
  values: TimelineValue[];
  /** Begin and end of each bucket in microseconds. */
  bounds: [number, number][];
  /** Average active sessions of each value in each bucket; null where nothing was recorded. */
  rates: (number[] | null)[];
  peak: number;
  /** The rate over all of it. */
  rate: number | null;
  ns: number;
  /** Of that, what began before the first bucket, and is in none. */
  before: number;
}

/** The values of a dimension: for each cell the number of its own, how many there are, and what a number stands for. */
interface Values {
  column: Uint32Array | Uint8Array;
  /** If the column has something that leads to the value: for each of these the value. */
  places: ArrayLike<number> | null;
  count: number;
  word(number: number): string;
  label(number: number): string;
}

function valuesOf(of: Recording, table: Table, by: TimelineBy): Values {
  switch (by) {
    case "wait":
      return { column: table.wait, places: null, count: of.waits.length, word: (n) => of.waits[n]!.label, label: (n) => oneLine(of.waits[n]!.label) };
    case "wait_class": {
      const classes = [...new Set(of.waits.map((wait) => wait.class_by_cpu))];
      return { column: table.wait, places: of.waits.map((wait) => classes.indexOf(wait.class_by_cpu)), count: classes.length, word: (n) => classes[n]!, label: (n) => oneLine(classes[n]!) };
    }
    case "state":
      return { column: table.state, places: null, count: of.states.length, word: (n) => of.states[n]!, label: (n) => of.states[n]! };
    case "query":
      return { column: table.statement, places: null, count: of.statements.length, word: (n) => of.statements[n]!.query, label: (n) => statementLabel(of, n) };
    default:
      return { column: table.session, places: of.sessions[by], count: of.names.length, word: (n) => of.names[n]!, label: (n) => nameOr(of.names[n]!) };
  }
}

/** A statement in few words. */
export function statementLabel(of: Pick<Recording, "statements">, statement: number): string {
  const { query, sql_id, text } = of.statements[statement]!;
  if (query === "0") return "[unknown: parsing, or not begun]";
  return text === undefined ? `${sql_id ?? query} [text not recorded]` : oneLine(text.slice(0, 300));
}

/** The cells of DB time among those that are taken. */
function rowsOfDbTime(table: Table, takes: Uint8Array): Uint32Array {
  const rows = new Uint32Array(table.rows);
  let count = 0;
  for (let row = 0; row < table.rows; row++) if (takes[row] && isDbTime(table.place[row]!)) rows[count++] = row;
  return rows.subarray(0, count);
}

export function timeline(of: Recording, filter: Filter, by: TimelineBy): Timeline | null {
  const table = tableOf(of, filter);
  const [from, to] = period(of, noFilter());
  if (of.no_timeline !== null || to <= from) return null;
  const takes = chosen(of, table, filter, false);
  const multiple = ROUND.map((round) => Math.ceil(round / table.width_s) * table.width_s);
  for (let days = 2; multiple.at(-1)! * MOST_BUCKETS < (to - from) / 1e6; days *= 2) multiple.push(days * 86_400 * table.width_s);
  const width_s = multiple.find((width) => (to - from) / 1e6 / width <= MOST_BUCKETS) ?? multiple.at(-1)!;
  const firstBucket = Math.floor(from / 1e6 / width_s);
  const count = Math.ceil(to / 1e6 / width_s) - firstBucket;

  const { column, places, count: numbers, word, label } = valuesOf(of, table, by);
  const drawn = rowsOfDbTime(table, takes);
  const valueOf = new Uint32Array(drawn.length);
  for (let at = 0; at < drawn.length; at++) valueOf[at] = places ? places[column[drawn[at]!]!]! : column[drawn[at]!]!;
  const totals = new Float64Array(numbers);
  for (let at = 0; at < drawn.length; at++) totals[valueOf[at]!]! += table.ns[drawn[at]!]!;
  const largest = Array.from(totals.keys()).filter((value) => totals[value]! > 0).toSorted((one, other) => totals[other]! - totals[one]! || one - other);
  const shown = largest.slice(0, TOP).map((value) => ({ value, layer: layerOf(of, by, word(value)) })).toSorted((one, other) => one.layer - other.layer);
  const list: TimelineValue[] = shown.map(({ value }) => ({ word: word(value), label: label(value), ns: totals[value]! }));
  const others = largest.slice(TOP);
  // For each value the place of its layer.
  const layers = new Uint8Array(numbers).fill(list.length);
  shown.forEach(({ value }, place) => {
    layers[value] = place;
  });
  if (others.length > 0) {
    list.push({ word: null, label: `${others.length} other${others.length === 1 ? "" : "s"}`, ns: others.reduce((sum, value) => sum + totals[value]!, 0) });
  }
  const inBuckets = Array.from({ length: count }, () => list.map(() => 0));
  let before = 0;
  // Not if several sessions are treated as one.
  const isOfOne = of.may_be_long && of.are_times && (!table.leaf || of.alike.length === 0);
  const bucketOf = (us: number) => Math.floor(us / 1e6 / width_s) - firstBucket;
  const partsOf = (bucket: number) => inBuckets[Math.min(count - 1, Math.max(0, bucket))]!;
  // Times that samples of other tools cover as a whole, by the last second, which has their rows.
  const told = new Map(of.may_be_long ? [] : (of.periods ?? []));
  // Spreads time of a value between two moments, this many nanoseconds in each microsecond.
  const lay = (value: number, since: number, until: number, ns_us: number) => {
    before += Math.max(0, Math.min(until, from) - since) * ns_us;
    for (let bucket = Math.max(0, bucketOf(since)); bucket < count; bucket++) {
      const left = Math.max(since, from, (firstBucket + bucket) * width_s * 1e6);
      const right = Math.min(until, (firstBucket + bucket + 1) * width_s * 1e6);
      if (right <= left) break;
      partsOf(bucket)[layers[value]!]! += (right - left) * ns_us;
    }
  };
  // What a session did in a window. If that is more than the window, the long ones began before it: they are laid end to end, the shortest
  // last, back from its end.
  const place = (first: number, next: number) => {
    const begin = (table.first_s + table.window[drawn[first]!]! * table.width_s) * 1e6;
    const end = Math.min(begin + table.width_s * 1e6, to);
    const told_us = (told.get(begin) ?? 0) / 1000;
    if (told_us > 0) {
      for (let at = first; at < next; at++) lay(valueOf[at]!, end - told_us, end, table.ns[drawn[at]!]! / told_us);
      return;
    }
    let all = 0;
    if (isOfOne) for (let at = first; at < next; at++) all += table.ns[drawn[at]!]!;
    if (!isOfOne || end - all / 1000 >= begin - 1) {
      const parts = partsOf(bucketOf(begin));
      for (let at = first; at < next; at++) {
        const ns = table.ns[drawn[at]!]!;
        if (ns > 0) parts[layers[valueOf[at]!]!]! += ns;
      }
      return;
    }
    const parts = new Map<number, number>();
    for (let at = first; at < next; at++) parts.set(valueOf[at]!, (parts.get(valueOf[at]!) ?? 0) + table.ns[drawn[at]!]!);
    let until = end;
    for (const [value, ns] of [...parts].toSorted((one, other) => one[1] - other[1])) {
      const since = until - ns / 1000;
      if (until > since) lay(value, since, until, 1000);
      until = since;
    }
  };
  // Cells are in order of windows, and of sessions in them.
  let first = 0;
  for (let at = 1; at <= drawn.length; at++) {
    const isSame = at < drawn.length && table.window[drawn[at]!] === table.window[drawn[first]!] && table.session[drawn[at]!] === table.session[drawn[first]!];
    if (isSame) continue;
    place(first, at);
    first = at;
  }
  const bounds = inBuckets.map((_, bucket): [number, number] => [
    Math.max(from, (firstBucket + bucket) * width_s * 1e6),
    Math.min(to, (firstBucket + bucket + 1) * width_s * 1e6),
  ]);
  // What is counted instead of time is shown per second.
  const unit = of.are_times ? 1 : 1e9;
  const lengths = bounds.map(([begin, end]) => recordedNs(of, begin, end));
  const rates = inBuckets.map((parts, bucket) => (lengths[bucket]! > 0 ? parts.map((ns) => (ns * unit) / lengths[bucket]!) : null));
  const isLong = (bucket: number) => lengths[bucket]! >= width_s * 1e8;
  const hasLong = lengths.some((_, bucket) => isLong(bucket));
  const heights = rates.map((parts, bucket) => (parts && (isLong(bucket) || !hasLong) ? parts.reduce((sum, rate) => sum + rate, 0) : 0));
  const ns = list.reduce((sum, value) => sum + value.ns, 0);
  const length = recordedNs(of, from, to);
  return { by, width_s, values: list, bounds, rates, peak: Math.max(0, ...heights), rate: length > 0 ? (ns * unit) / length : null, ns, before };
}

/** What is drawn lower: CPU and waiting for one, so that both can be compared with the line of the CPUs. */
function layerOf(of: Recording, by: Dimension, word: string): number {
  if (by === "state") return of.states.indexOf(word);
  if (by !== "wait" && by !== "wait_class") return 0;
  if (word === "CPU") return 0;
  return word.endsWith(" (no CPU)") ? 1 : 2;
}

/** Whether nothing in the recording says this about sessions: for messages. */
export function isNotRecorded(of: Recording, by: TimelineBy): boolean {
  if (by === "user" || by === "application" || by === "database") {
    return of.sessions.pid.every((_, session) => factOf(of, by, session) === "");
  }
  return by === "query" && of.statements.every((statement) => statement.query === "0");
}
