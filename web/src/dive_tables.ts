// Tables of a dive: calls by kind, where their time went, functions, and what a timer found.

import { CALLS, type DiveColumn, MAX, MEAN, MIN, OFF, OWN, P99, TOTAL } from "./dive_columns.ts";
import { type Dive, named, type SampledFunction, type SampledInterval } from "./dive_data.ts";
import { make } from "./dom.ts";
import { type Column, type Order, RankedTable } from "./ranked_table.ts";
import { microseconds, milliseconds, oneLine, percent, shown } from "./words.ts";

type Sorted = (order: Order | null) => void;

/** The number of a function. */
interface FunctionRow {
  at: number;
}

/** Every function, whoever called it. */
export function functionTable(of: Dive, isChosen: (name: string) => boolean, choose: (name: string) => void, sorted: Sorted): RankedTable<FunctionRow> {
  const { functions, names } = of;
  const nameOf = ({ at }: FunctionRow) => names[functions.name[at]!]!;
  const numbers = ({ word, name, number, text }: DiveColumn): Column<FunctionRow> => ({ word, name, number: ({ at }) => number(functions, at), text: ({ at }) => text(functions, at) });
  const columns: Column<FunctionRow>[] = [
    { word: "function", name: "function", text: (row) => oneLine(nameOf(row)), isWide: true },
    ...[{ ...TOTAL, name: "in all ms" }, OWN, OFF, CALLS, MIN, MEAN, P99, MAX].map(numbers),
  ];
  const table = new RankedTable<FunctionRow>("Functions", columns, TOTAL.word, ({ at }) => String(at), (row) => isChosen(nameOf(row)), (row) => choose(nameOf(row)), sorted);
  table.update(Array.from(functions.name, (_, at) => ({ at })));
  return table;
}

/** A column of samples, and one of their share of all. */
function sampleColumns<Row>(word: string, name: string, all: number, samples: (row: Row) => number): Column<Row>[] {
  return [
    { word, name, number: samples, text: (row) => String(samples(row)) },
    { word: `${word}_share`, name: "%", number: samples, text: (row) => percent(samples(row), all) },
  ];
}

function nameOfSampled(row: SampledFunction): string {
  return named(row.function, row.module);
}

export function sampledTable(all: number, rows: SampledFunction[], isChosen: (name: string) => boolean, choose: (name: string) => void, sorted: Sorted): RankedTable<SampledFunction> {
  const columns: Column<SampledFunction>[] = [
    { word: "function", name: "function", text: (row) => oneLine(nameOfSampled(row)), isWide: true },
    ...sampleColumns<SampledFunction>("own", "own samples", all, (row) => row.own),
    ...sampleColumns<SampledFunction>("total", "in all", all, (row) => row.total),
  ];
  const table = new RankedTable<SampledFunction>("Timer samples by function", columns, "own", nameOfSampled, (row) => isChosen(nameOfSampled(row)), (row) => choose(nameOfSampled(row)), sorted);
  table.update(rows);
  return table;
}

export function intervalTable(all: number, rows: SampledInterval[], sorted: Sorted): RankedTable<SampledInterval> {
  const columns: Column<SampledInterval>[] = [
    { word: "interval", name: "between the tracepoints", text: (row) => oneLine(row.interval), isWide: true },
    ...sampleColumns<SampledInterval>("samples", "samples", all, (row) => row.samples),
  ];
  const table = new RankedTable<SampledInterval>("Timer samples by interval", columns, "samples", (row) => row.interval, () => false, null, sorted);
  table.update(rows);
  return table;
}

/** A table that stays as it is: names, then numbers. */
function fixed(caption: string, head: string[], names: number, rows: string[][]): HTMLElement {
  const number = (at: number) => (at < names ? "" : "number");
  const line = (cells: string[]) => make("tr", {}, ...cells.map((text, at) => (at === 0 ? make("th", { scope: "row" }, text) : make("td", { class: number(at) }, text))));
  return make(
    "div",
    { class: "scroll" },
    make("table", {}, make("caption", { class: "unseen" }, caption), make("thead", {}, make("tr", {}, ...head.map((name, at) => make("th", { scope: "col", class: number(at) }, name)))), make("tbody", {}, ...rows.map(line))),
  );
}

function microsecondsIfKnown(ns: number | null): string {
  return ns === null ? "?" : microseconds(ns);
}

export function callTable({ calls, states }: Dive): HTMLElement {
  const kept = states.filter(([state]) => calls.some((call) => (call.states[state] ?? 0) > 0));
  const rows = calls.map((call) => {
    const all = Object.values(call.states).reduce((sum, ns) => sum + ns, 0);
    const lengths = call.count === 0 ? ["–", "–", "–", "–", "–"] : [call.min_ns, call.avg_ns, call.p50_ns, call.p99_ns, call.max_ns].map(microsecondsIfKnown);
    return [oneLine(call.function), String(call.count), milliseconds(call.total_ns), ...lengths, ...kept.map(([state]) => percent(call.states[state] ?? 0, all))];
  });
  return fixed("Calls", ["function", "calls", "total ms", "min us", "mean us", "p50 us", "p99 us", "max us", ...kept.map(([, words]) => `${words} %`)], 1, rows);
}

/** Where the time of calls went: layers of the kernel, on a CPU or off it. */
export function layerTable({ layers, states }: Dive): HTMLElement {
  const all = layers.reduce((sum, { ns }) => sum + ns, 0);
  const words = new Map(states);
  const rows = layers.map(({ layer, state, ns }) => [shown(layer), shown(words.get(state) ?? state), milliseconds(ns), percent(ns, all)]);
  return fixed("Where the time of the calls went", ["layer", "state", "ms", "%"], 2, rows);
}
