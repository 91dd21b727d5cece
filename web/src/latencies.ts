// Latencies of single events: which of them count, grouped, and over time.

import type { Latencies, Recording } from "./data.ts";
import { period } from "./elapsed.ts";
import { alikeTaken, choosesSessions, type Dimension, type Filter, inTime, isCalled, keep, noFilter, OF_CODE } from "./filter.ts";
import { Histogram, middle, powerOf, type Range } from "./histogram.ts";
import { pairsOf } from "./pairs.ts";
import { sortedBy } from "./paths.ts";

/** What the events of a kind can be grouped by, in the order of their places in a series. */
export const LATENCY_BY = ["name", "device", "source"] as const;
export type LatencyBy = (typeof LATENCY_BY)[number];

/** What is shown. */
export interface LatencyChoice {
  kind: number;
  by: LatencyBy[];
  /** Labels of the group whose distribution is shown, one for each of `by`; none = all of the kind. */
  of: string[] | null;
}

/** What the events of a kind differ in, and combinations of it. */
export function waysToGroup(of: Latencies, kind: number): LatencyBy[][] {
  const series = of.series.filter(([ofKind]) => ofKind === kind);
  const different = LATENCY_BY.filter((_, at) => new Set(series.map((one) => one[at + 1])).size > 1);
  const [first, ...others] = different;
  if (!first) return [["name"]];
  return [...different.map((by) => [by]), ...others.map((by) => [first, by])];
}

/** Chosen dimensions that the events of a kind cannot be split by. */
export function notToldApart(of: Recording, kind: number, filter: Filter): Dimension[] {
  const { names } = of.latencies.kinds[kind]!;
  const told: Dimension[] = names === "wait" ? ["wait", "wait_class"] : names === "query" ? ["query"] : [];
  const never: Dimension[] = ["wait", "wait_class", "query", "state", "session_state", ...OF_CODE];
  return never.filter((dimension) => filter.words.has(dimension) && !told.includes(dimension));
}

/** For each cell 1 if its event is of this kind and chosen. Without times if all of time is shown. */
export function eventsTaken(of: Recording, kind: number, filter: Filter, withTimes = true): Uint8Array {
  const all = of.latencies;
  const takes = inTime(all, filter, withTimes);
  keep(takes, all.of_series, Uint8Array.from(all.series, (one) => (one[0] === kind && isNamed(of, kind, one[1], filter) ? 1 : 0)));
  // Events of no session do not belong to chosen ones.
  if (choosesSessions(filter) && all.apart !== "none") {
    const taken = new Uint8Array(of.sessions.pid.length + 1);
    taken.set(alikeTaken(of, filter, all.alike), 1);
    keep(takes, all.session, taken);
  }
  return takes;
}

function isNamed(of: Recording, kind: number, name: string, filter: Filter): boolean {
  const { names } = of.latencies.kinds[kind]!;
  const queries = filter.words.get("query");
  // Among statements the unknown one has the id 0.
  if (names === "query") return !queries || queries.includes(name === "[unknown]" ? "0" : name);
  if (names === "other") return true;
  const [first = "", event = first] = name.split(":");
  const wait = { class: first, event, recorded_event: event, label: name };
  const is = (dimension: Dimension, test: (word: string) => boolean) => filter.words.get(dimension)?.some(test) ?? true;
  return is("wait", (word) => isCalled(wait, word)) && is("wait_class", (word) => word === first);
}

export interface Group {
  labels: string[];
  histogram: Histogram;
}

/** The events by group, those with the most time first. */
export function groups(of: Latencies, takes: Uint8Array, by: readonly LatencyBy[]): Group[] {
  const numbers = new Map<string, number>();
  const labels: string[][] = [];
  const groupOf = Uint32Array.from(of.series, (series) => {
    const names = by.map((name) => series[LATENCY_BY.indexOf(name) + 1] as string);
    const key = JSON.stringify(names);
    const number = numbers.get(key) ?? labels.push(names) - 1;
    numbers.set(key, number);
    return number;
  });
  // First by series and bucket: these are few.
  const pairs = pairsOf(of.of_series, of.bucket, of.buckets.length);
  const count = new Float64Array(pairs.count);
  const sum = new Float64Array(pairs.count);
  const max = new Float64Array(pairs.count);
  for (let row = 0; row < of.rows; row++) {
    if (!takes[row]) continue;
    const pair = pairs.of[row]!;
    count[pair]! += of.count[row]!;
    sum[pair]! += of.sum[row]!;
    if (of.max[row]! > max[pair]!) max[pair] = of.max[row]!;
  }
  const byBucket = sortedBy(pairs.count, of.buckets.length, (pair) => pairs.other[pair]!);
  const order = sortedBy(pairs.count, labels.length, (pair) => groupOf[pairs.one[pair]!]!, byBucket);
  // What several series of a group have in one bucket is merged.
  const buckets = new Uint32Array(pairs.count);
  const [counts, sums, longest] = [new Float64Array(pairs.count), new Float64Array(pairs.count), new Float64Array(pairs.count)];
  const all: Group[] = [];
  let end = 0;
  let next = 0;
  for (const [group, names] of labels.entries()) {
    const begin = end;
    for (; next < order.length && groupOf[pairs.one[order[next]!]!] === group; next++) {
      const pair = order[next]!;
      if (count[pair] === 0) continue;
      if (end === begin || buckets[end - 1] !== pairs.other[pair]) buckets[end++] = pairs.other[pair]!;
      counts[end - 1]! += count[pair]!;
      sums[end - 1]! += sum[pair]!;
      if (max[pair]! > longest[end - 1]!) longest[end - 1] = max[pair]!;
    }
    const part = <T extends Uint32Array | Float64Array>(column: T) => column.subarray(begin, end) as T;
    if (end > begin) all.push({ labels: names, histogram: new Histogram(of.buckets, part(buckets), part(counts), part(sums), part(longest)) });
  }
  return all.toSorted((one, other) => other.histogram.sum - one.histogram.sum || (one.labels.join() < other.labels.join() ? -1 : 1));
}

/** The same cells, limited to one group. */
export function ofGroup(of: Latencies, takes: Uint8Array, { by, of: labels }: LatencyChoice): Uint8Array {
  if (!labels) return takes;
  const is = Uint8Array.from(of.series, (series) => (by.every((name, at) => series[LATENCY_BY.indexOf(name) + 1] === labels[at]) ? 1 : 0));
  const ofThese = takes.slice();
  keep(ofThese, of.of_series, is);
  return ofThese;
}

/** The same cells, limited to events that took this long. */
export function ofRange(of: Latencies, takes: Uint8Array, range: Range | null): Uint8Array {
  if (!range) return takes;
  const ofThese = takes.slice();
  keep(ofThese, of.bucket, Uint8Array.from(of.buckets, (bounds) => (2 ** powerOf(bounds) === range[1] ? 1 : 0)));
  return ofThese;
}

/** Events over time: columns of time, rows of latency in powers of two of microseconds. */
export interface HeatMap {
  /** Begin of the first column in seconds, and length of each. */
  from_s: number;
  width_s: number;
  columns: number;
  /** The lowest row begins at this power of two of microseconds. */
  lowest: number;
  powers: number;
  perPower: number;
  /** By column and row, the lowest being 0: events, their time, the longest. */
  count: Float64Array;
  sum: Float64Array;
  max: Float64Array;
  largest: number;
}

const MOST_COLUMNS = 240;
/** Most rows per power of two, and in all; powers below the lowest are in it. */
const FINEST = 8;
const MOST_ROWS = 96;
const LOWEST = -4;

export function heatMap(of: Recording, takes: Uint8Array): HeatMap | null {
  const all = of.latencies;
  const [from, to] = period(of, noFilter()).map((us) => us / 1e6) as [number, number];
  let width_s = all.width_s;
  while ((to - from) / width_s > MOST_COLUMNS) width_s += all.width_s;
  const from_s = Math.floor(from / width_s) * width_s;
  const rowOf = all.buckets.map((bounds) => Math.max(LOWEST * FINEST, Math.floor(Math.log2(middle(bounds) / 1000) * FINEST)));
  let [lowest, highest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let row = 0; row < all.rows; row++) {
    if (!takes[row]) continue;
    lowest = Math.min(lowest, rowOf[all.bucket[row]!]!);
    highest = Math.max(highest, rowOf[all.bucket[row]!]!);
  }
  if (highest < lowest || to <= from) return null;
  lowest = Math.floor(lowest / FINEST);
  const powers = Math.floor(highest / FINEST) - lowest + 1;
  let perPower = FINEST;
  while (perPower > 1 && powers * perPower > MOST_ROWS) perPower /= 2;
  const columns = Math.max(1, Math.ceil((to - from_s) / width_s));
  const rows = powers * perPower;
  const placeOf = rowOf.map((row) => Math.floor((row - lowest * FINEST) / (FINEST / perPower)));
  const count = new Float64Array(columns * rows);
  const sum = new Float64Array(columns * rows);
  const max = new Float64Array(columns * rows);
  for (let row = 0; row < all.rows; row++) {
    if (!takes[row]) continue;
    const second = all.first_s + all.window[row]! * all.width_s;
    const column = Math.min(columns - 1, Math.max(0, Math.floor((second - from_s) / width_s)));
    const cell = column * rows + placeOf[all.bucket[row]!]!;
    count[cell]! += all.count[row]!;
    sum[cell]! += all.sum[row]!;
    if (all.max[row]! > max[cell]!) max[cell] = all.max[row]!;
  }
  const largest = count.reduce((most, events) => Math.max(most, events), 0);
  return { from_s, width_s, columns, lowest, powers, perPower, count, sum, max, largest };
}
