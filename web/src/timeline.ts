// Average active sessions over time: DB time of each bucket by its length, by the values of one dimension.

import { DB_TIME, RESTS, type Recording, type SessionFact } from "./data.ts";
import { period, recordedNs } from "./elapsed.ts";
import { chosen, type Dimension, factOf, type Filter, noFilter, tableOf } from "./filter.ts";
import { nameOr, oneLine } from "./words.ts";

/** By what sessions can be told apart. */
export const TIMELINE_BY = ["wait_class", "wait", "state", "query", "user", "application", "database", "program"] as const;
export type TimelineBy = (typeof TIMELINE_BY)[number];

/** Values shown one by one; buckets at most. */
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
  /** Of all of it. */
  rate: number | null;
  ns: number;
  /** Of that, what began before the first bucket, and is in none. */
  before: number;
}

/** The value of a dimension that a row has: its number, and what the number stands for. */
function valuesOf(of: Recording, by: TimelineBy): { number(session: number, statement: number, wait: number, state: number): number; word(number: number): string; label(number: number): string } {
  switch (by) {
    case "wait":
      return { number: (_s, _q, wait) => wait, word: (n) => of.waits[n]!.label, label: (n) => oneLine(of.waits[n]!.label) };
    case "wait_class": {
      const classes = [...new Set(of.waits.map((wait) => wait.class_by_cpu))];
      const places = of.waits.map((wait) => classes.indexOf(wait.class_by_cpu));
      return { number: (_s, _q, wait) => places[wait]!, word: (n) => classes[n]!, label: (n) => oneLine(classes[n]!) };
    }
    case "state":
      return { number: (_s, _q, _w, state) => state, word: (n) => of.states[n]!, label: (n) => of.states[n]! };
    case "query":
      return { number: (_s, statement) => statement, word: (n) => of.statements[n]!.query, label: (n) => statementLabel(of, n) };
    default: {
      const places = of.sessions[by as SessionFact];
      return { number: (session) => places[session]!, word: (n) => of.names[n]!, label: (n) => nameOr(of.names[n]!) };
    }
  }
}

/** A statement in few words. */
export function statementLabel(of: Pick<Recording, "statements">, statement: number): string {
  const { query, sql_id, text } = of.statements[statement]!;
  if (query === "0") return "[none: parsing, or no command yet]";
  return text === undefined ? `${sql_id ?? query} [text not kept]` : oneLine(text.slice(0, 300));
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

  const values = valuesOf(of, by);
  const totals = new Map<number, number>();
  const sums = new Map<number, number>();
  let before = 0;
  // Not where several sessions are taken as one.
  const isOfOne = of.may_be_long && of.are_times && (!table.leaf || of.alike.length === 0);
  const give = (bucket: number, value: number, ns: number) => {
    const key = value * count + Math.min(count - 1, Math.max(0, bucket));
    sums.set(key, (sums.get(key) ?? 0) + ns);
  };
  const bucketOf = (us: number) => Math.floor(us / 1e6 / width_s) - firstBucket;
  // What a session did in a window. Where that is more than the window, the long ones began before it: they are laid end to end, the
  // shortest last, back from its end.
  const place = (window: number, parts: Map<number, number>) => {
    const begin = (table.first_s + window * table.width_s) * 1e6;
    const end = Math.min(begin + table.width_s * 1e6, to);
    let all = 0;
    for (const ns of parts.values()) all += ns;
    const isLong = isOfOne && end - all / 1000 < begin - 1;
    let until = end;
    for (const [value, ns] of [...parts].sort((one, other) => one[1] - other[1])) {
      totals.set(value, (totals.get(value) ?? 0) + ns);
      if (!isLong) {
        give(bucketOf(begin), value, ns);
        continue;
      }
      const since = until - ns / 1000;
      before += Math.max(0, Math.min(until, from) - since) * 1000;
      for (let bucket = Math.max(0, bucketOf(since)); bucket < count && until > since; bucket++) {
        const left = Math.max(since, from, (firstBucket + bucket) * width_s * 1e6);
        const right = Math.min(until, (firstBucket + bucket + 1) * width_s * 1e6);
        if (right <= left) break;
        give(bucket, value, (right - left) * 1000);
      }
      until = since;
    }
  };
  let parts = new Map<number, number>();
  let last = -1;
  for (let row = 0; row < table.rows; row++) {
    if (!takes[row] || Math.floor(table.place[row]! / RESTS) !== DB_TIME) continue;
    // Cells are in order of windows, and of sessions in them.
    if (last >= 0 && (table.window[row] !== table.window[last] || table.session[row] !== table.session[last])) {
      place(table.window[last]!, parts);
      parts = new Map();
    }
    last = row;
    const value = values.number(table.session[row]!, table.statement[row]!, table.wait[row]!, table.state[row]!);
    parts.set(value, (parts.get(value) ?? 0) + table.ns[row]!);
  }
  if (last >= 0) place(table.window[last]!, parts);
  const largest = [...totals].filter(([, ns]) => ns > 0).sort((one, other) => other[1] - one[1] || one[0] - other[0]);
  const shown = largest.slice(0, TOP).map(([value, ns]): [number, TimelineValue] => [value, { word: values.word(value), label: values.label(value), ns }]);
  const layer = (value: TimelineValue) => layerOf(of, by, value.word!);
  shown.sort((one, other) => layer(one[1]) - layer(other[1]));
  const places = new Map(shown.map(([value], place) => [value, place]));
  const list = shown.map(([, value]) => value);
  const others = largest.slice(TOP);
  if (others.length > 0) {
    list.push({ word: null, label: `${others.length} other${others.length === 1 ? "" : "s"}`, ns: others.reduce((sum, [, ns]) => sum + ns, 0) });
  }
  const inBuckets = Array.from({ length: count }, () => new Array<number>(list.length).fill(0));
  for (const [key, ns] of sums) {
    const at = places.get(Math.floor(key / count)) ?? list.length - 1;
    if (at >= 0) inBuckets[key % count]![at]! += ns;
  }
  const bounds = inBuckets.map((_, bucket): [number, number] => [
    Math.max(from, (firstBucket + bucket) * width_s * 1e6),
    Math.min(to, (firstBucket + bucket + 1) * width_s * 1e6),
  ]);
  // What is counted in the place of time is shown per second.
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

/** What comes lower: CPU and what waits for one, so that they can be held against the line of the CPUs. */
function layerOf(of: Recording, by: Dimension, word: string): number {
  if (by === "state") return of.states.indexOf(word);
  if (by !== "wait" && by !== "wait_class") return 0;
  if (word === "CPU") return 0;
  return word.endsWith(" (no CPU)") ? 1 : 2;
}

/** Sessions of a name, for messages: nothing in the recording says it. */
export function isNotRecorded(of: Recording, by: TimelineBy): boolean {
  if (by === "user" || by === "application" || by === "database") {
    return of.sessions.pid.every((_, session) => factOf(of, by, session) === "");
  }
  return by === "query" && of.statements.every((statement) => statement.query === "0");
}
