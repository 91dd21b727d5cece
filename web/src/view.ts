// What is shown, and how: all of it is in the fragment of the page's address, in the words of the command line.

import type { Recording } from "./data.ts";
import { DIMENSIONS, type Dimension, type Filter, noFilter } from "./filter.ts";
import { LEVELS, type Level, MODES, type Mode } from "./flame.ts";
import { FIRST, type First } from "./paths.ts";
import { type Range, rangeOf } from "./histogram.ts";
import type { Order } from "./ranked_table.ts";
import { TIMELINE_BY, type TimelineBy } from "./timeline.ts";
import { moment, secondOf } from "./words.ts";

/** Levels below the call paths. */
export const LEVEL_CHOICES = ["wait,state", "state,wait", "query,wait,state", "query", "none"] as const;
export type LevelChoice = (typeof LEVEL_CHOICES)[number];

/** Tables whose order is kept. */
export const TABLES = ["causes", "waited", "sql", "who", "functions", "modules", "latency"] as const;
export type TableName = (typeof TABLES)[number];

/** The visible part of the flame graph's width: its begin and its length, in nanoseconds. */
export interface Zoom {
  from: number;
  span: number;
}

/** Which latencies are shown: kind, grouping, one of the groups, and how long they took; as usual without one. */
export interface LatencyWords {
  kind: string | null;
  by: string | null;
  of: string[] | null;
  us: Range | null;
}

export interface View {
  filter: Filter;
  /** What the timeline groups sessions by. */
  by: TimelineBy;
  mode: Mode;
  levels: LevelChoice;
  first: First;
  /** With the start of the server, which all stacks have in common. */
  areWhole: boolean;
  /** Root at the top. */
  icicle: boolean;
  /** Null = all of it. Another flame graph begins without. */
  zoom: Zoom | null;
  search: string;
  orders: Map<TableName, Order>;
  latency: LatencyWords;
}

/** Follows a column: in reverse. */
const REVERSED = ".reversed";

export function usualView(of: Recording): View {
  return { filter: noFilter(), by: of.knows_database ? "wait_class" : "program", mode: "all", levels: "wait,state", first: "callers", areWhole: false, icicle: true, zoom: null, search: "", orders: new Map(), latency: { kind: null, by: null, of: null, us: null } };
}

export function levelsOf(choice: LevelChoice): Level[] {
  return choice.split(",").filter((name): name is Level => (LEVELS as readonly string[]).includes(name));
}

/** The view as a fragment, without the #. */
export function written(of: Recording, view: View): string {
  const usual = usualView(of);
  const parts = new URLSearchParams();
  for (const dimension of DIMENSIONS) {
    for (const word of view.filter.words.get(dimension) ?? []) parts.append(dimension, word);
  }
  if (view.filter.from !== null) parts.set("from", moment(of, view.filter.from));
  if (view.filter.to !== null) parts.set("to", moment(of, view.filter.to));
  if (view.by !== usual.by) parts.set("by", view.by);
  if (view.mode !== usual.mode) parts.set("time", view.mode);
  if (view.levels !== usual.levels) parts.set("levels", view.levels);
  if (view.first !== usual.first) parts.set("first", view.first);
  writeWhole(parts, view.areWhole);
  if (view.icicle !== usual.icicle) parts.set("root", "bottom");
  writeZoom(parts, view.zoom);
  if (view.search !== "") parts.set("search", view.search);
  writeOrders(parts, TABLES, view.orders);
  if (view.latency.kind !== null) parts.set("latency", view.latency.kind);
  if (view.latency.by !== null) parts.set("latency_by", view.latency.by);
  for (const label of view.latency.of ?? []) parts.append("latency_of", label);
  if (view.latency.us !== null) parts.set("latency_us", view.latency.us.join("-"));
  return parts.toString();
}

/** The view of a fragment; unknown parts are ignored. */
export function read(of: Recording, fragment: string): View {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const view = usualView(of);
  const words = new Map<Dimension, string[]>();
  for (const dimension of DIMENSIONS) {
    const found = [...new Set(parts.getAll(dimension))];
    if (found.length > 0) words.set(dimension, found);
  }
  view.filter = { from: secondOf(of, parts.get("from") ?? ""), to: secondOf(of, parts.get("to") ?? ""), words };
  const one = <T extends string>(name: string, values: readonly T[], usual: T) => values.find((value) => value === parts.get(name)) ?? usual;
  view.by = one("by", TIMELINE_BY, view.by);
  view.mode = one("time", MODES, view.mode);
  view.levels = one("levels", LEVEL_CHOICES, view.levels);
  view.first = one("first", FIRST, view.first);
  view.areWhole = readWhole(parts);
  view.icicle = parts.get("root") !== "bottom";
  view.zoom = readZoom(parts);
  view.search = parts.get("search") ?? "";
  view.orders = readOrders(parts, TABLES);
  const labels = parts.getAll("latency_of");
  view.latency = { kind: parts.get("latency"), by: parts.get("latency_by"), of: labels.length > 0 ? labels : null, us: of.latencies.kinds.length > 0 ? readRange(parts) : null };
  return view;
}

/** A bucket of the histogram; null if it is not one. */
function readRange(parts: URLSearchParams): Range | null {
  const [, from, to] = /^(\d{1,16})-(\d{1,16})$/.exec(parts.get("latency_us") ?? "") ?? [];
  const range = rangeOf(Math.log2(Number(to)));
  return range[0] === Number(from) && Number.isInteger(Math.log2(range[1])) ? range : null;
}

export function writeWhole(parts: URLSearchParams, areWhole: boolean): void {
  if (areWhole) parts.set("stacks", "whole");
}

export function readWhole(parts: URLSearchParams): boolean {
  return parts.get("stacks") === "whole";
}

export function writeZoom(parts: URLSearchParams, zoom: Zoom | null): void {
  if (zoom) parts.set("zoom", `${zoom.from}-${zoom.from + zoom.span}`);
}

export function readZoom(parts: URLSearchParams): Zoom | null {
  const [from = 0, to = 0] = (/^(\d+)-(\d+)$/.exec(parts.get("zoom") ?? "") ?? []).slice(1).map(Number);
  return to > from && to <= Number.MAX_SAFE_INTEGER ? { from, span: to - from } : null;
}

export function writeOrders<Name extends string>(parts: URLSearchParams, tables: readonly Name[], orders: Map<Name, Order>): void {
  for (const table of tables) {
    const order = orders.get(table);
    if (order) parts.set(`sort_${table}`, `${order.column}${order.isReversed ? REVERSED : ""}`);
  }
}

export function readOrders<Name extends string>(parts: URLSearchParams, tables: readonly Name[]): Map<Name, Order> {
  const orders = new Map<Name, Order>();
  for (const table of tables) {
    const column = parts.get(`sort_${table}`);
    if (column) orders.set(table, { column: column.replace(REVERSED, ""), isReversed: column.endsWith(REVERSED) });
  }
  return orders;
}
