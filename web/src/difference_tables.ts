// Tables of what differs between two recordings, the largest difference first.

import { amountOf, type Change, type CounterChange, type Difference, type LatencyChange, type PlaceKind, signedOf, type StatementChange } from "./difference.ts";
import { IN_MODULE } from "./flame.ts";
import { type Column, type Order, RankedTable } from "./ranked_table.ts";
import { duration, oneLine } from "./words.ts";

/** A difference with its place in words. */
export interface Placed {
  /** Index among those of its kind: long call paths are named only by their ends, which may be the same. */
  at: number;
  place: string;
  change: Change;
}

const TITLES: Record<PlaceKind, string> = { cells: "wait event, state", waits: "wait event", functions: "function", paths: "call path", modules: "module" };

type Sorted = (order: Order | null) => void;

function verdict(word: string): string {
  return word === "significant" ? "yes" : word;
}

/** GOOD, BAD, difference, part of DB time, verdict. For functions, the difference is that of their own time. */
function numbers<Row>(of: Difference, change: (row: Row) => Change, areFunctions = false): Column<Row>[] {
  const value = (number: number) => (number === 0 ? "–" : amountOf(of, number));
  return [
    { word: "good", name: areFunctions ? "total GOOD" : "GOOD", number: (row) => change(row).good, text: (row) => value(change(row).good) },
    { word: "bad", name: areFunctions ? "total BAD" : "BAD", number: (row) => change(row).bad, text: (row) => value(change(row).bad) },
    { word: "difference", name: areFunctions ? "in itself" : "difference", number: (row) => Math.abs(change(row).difference), text: (row) => signedOf(of, change(row).difference), tone: (row) => Math.sign(change(row).difference) },
    { word: "percent", name: "% of DB time", number: (row) => Math.abs(change(row).percent), text: (row) => signedPercent(change(row).percent) },
    { word: "significant", name: "significant", text: (row) => verdict(change(row).verdict) },
  ];
}

function signedPercent(percent: number): string {
  return `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(1)}`;
}

/** The search text that finds a place in the flame graph. */
function frameOf(kind: PlaceKind, place: string): string {
  if (kind === "modules") return IN_MODULE + place;
  const name = kind === "cells" ? place.slice(0, place.lastIndexOf(", ")) : kind === "paths" ? place.split(" > ").at(-1)! : place;
  return name.replace(/ \[k\]$/, "");
}

/** The differences of a kind of places. A click searches for them in the flame graph. */
export function placeTable(of: Difference, kind: PlaceKind, isFound: (frame: string) => boolean, find: (frame: string) => void, sorted: Sorted): RankedTable<Placed> {
  const columns: Column<Placed>[] = [
    { word: "place", name: TITLES[kind], text: ({ place }) => oneLine(place), isWide: true },
    ...numbers<Placed>(of, ({ change }) => change, kind === "functions"),
  ];
  const table = new RankedTable<Placed>(`Differences by ${TITLES[kind]}`, columns, "difference", ({ at }) => String(at), ({ place }) => isFound(frameOf(kind, place)), ({ place }) => find(frameOf(kind, place)), sorted);
  const rows = of.places[kind].map((place, at) => ({ at, place, change: of.diff[kind][at]! }));
  table.update(rows.filter(({ change }) => change.difference !== 0));
  return table;
}

/** The word for a statement in the address; "" = what belongs to none. */
export function statementWord({ query }: StatementChange): string {
  return query ?? "";
}

function statementText(row: StatementChange): string {
  if (row.query === null) return "[unknown: parsing, or not begun]";
  return row.text === null ? `${row.sql_id ?? row.query} [text not recorded]` : oneLine(row.text.slice(0, 300));
}

export function statementChangeTable(of: Difference, isChosen: (word: string) => boolean, choose: (word: string) => void, sorted: Sorted): RankedTable<StatementChange> {
  const columns: Column<StatementChange>[] = [
    { word: "statement", name: "statement", text: statementText, isWide: true },
    { word: "most", name: "most of it in", text: (row) => oneLine(mostOf(of, row)) },
    ...numbers<StatementChange>(of, (row) => row),
    { word: "query", name: "query", text: (row) => row.sql_id ?? row.query ?? "" },
  ];
  return new RankedTable<StatementChange>("Differences by statement", columns, "difference", statementWord, (row) => isChosen(statementWord(row)), (row) => choose(statementWord(row)), sorted);
}

/** The cell with the largest difference in the direction of the whole. */
function mostOf(of: Difference, row: StatementChange): string {
  const at = row.cells.findIndex((cell) => cell.difference * row.difference > 0);
  return of.places.of_statements[of.diff.statements.indexOf(row)]?.[at] ?? "";
}

function time(ns: number | null): string {
  return ns === null ? "–" : duration(Math.round(ns));
}

function quantity(name: string): Column<LatencyChange> {
  const get = (row: LatencyChange) => row.quantities.find((one) => one.name === name);
  return {
    word: name,
    name,
    number: (row) => Math.abs((get(row)?.bad_ns ?? 0) - (get(row)?.good_ns ?? 0)),
    text: (row) => {
      const found = get(row);
      return found ? `${time(found.good_ns)} → ${found.verdict === "significant" ? "" : "~"}${time(found.bad_ns)}` : "";
    },
  };
}

export function latencyChangeTable(of: Difference, sorted: Sorted): RankedTable<LatencyChange> {
  const columns: Column<LatencyChange>[] = [
    { word: "kind", name: "kind", text: (row) => row.kind },
    { word: "event", name: "event", text: (row) => oneLine(row.name), isWide: true },
    { word: "events", name: `per ${of.diff.per}`, number: (row) => Math.abs(row.bad_per_unit - row.good_per_unit), text: (row) => `${row.good_per_unit.toFixed(2)} → ${row.bad_per_unit.toFixed(2)}` },
    ...["mean", "p50", "p95", "p99"].map(quantity),
    { word: "difference", name: "time", number: (row) => Math.abs(row.difference_ns_per_unit), text: (row) => (row.difference_ns_per_unit === 0 ? "–" : `${row.difference_ns_per_unit > 0 ? "+" : "−"}${time(Math.abs(row.difference_ns_per_unit))}`), tone: (row) => Math.sign(row.difference_ns_per_unit) },
  ];
  const table = new RankedTable<LatencyChange>("Latencies of both sides", columns, "difference", (row) => `${row.kind} ${row.name}`, () => false, null, sorted);
  table.update(of.diff.latencies);
  return table;
}

/** As in 'dbtime diff': by the ratio. */
function times({ good, bad }: CounterChange): number {
  return Math.abs(Math.log((Math.abs(bad) + 1e-9) / (Math.abs(good) + 1e-9)));
}

export function counterTable(of: Difference, sorted: Sorted): RankedTable<CounterChange> {
  const columns: Column<CounterChange>[] = [
    { word: "source", name: "source", text: (row) => oneLine(row.source) },
    { word: "counter", name: "counter", text: (row) => oneLine(row.name), isWide: true },
    { word: "good", name: "GOOD", number: (row) => row.good, text: (row) => row.good.toFixed(2) },
    { word: "bad", name: "BAD", number: (row) => row.bad, text: (row) => row.bad.toFixed(2) },
    { word: "times", name: "times", number: times, text: ({ good, bad }) => (good > 0 && bad > 0 ? (bad / good).toFixed(2) : "–") },
    { word: "significant", name: "significant", text: (row) => verdict(row.verdict) },
  ];
  const table = new RankedTable<CounterChange>("Counters of both sides", columns, "times", (row) => `${row.source} ${row.name}`, () => false, null, sorted);
  table.update(of.diff.counters.filter((row) => row.good !== row.bad));
  return table;
}
