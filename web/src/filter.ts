// Which cells count: the same words as on the command line, with the same meaning.

import { keepFunctions, keepModules } from "./code_filter.ts";
import type { Recording, SessionFact, Table, Wait } from "./data.ts";

/** What can be chosen, in the order in which it is shown. */
export const DIMENSIONS = [
  "wait",
  "wait_class",
  "state",
  "session_state",
  "query",
  "session",
  "user",
  "database",
  "application",
  "client",
  "backend_type",
  "program",
  "function",
  "module",
] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** Their names. */
export const DIMENSION_NAMES: Record<Dimension, string> = {
  wait: "wait event",
  wait_class: "wait class",
  state: "state",
  session_state: "session state",
  query: "query",
  session: "session",
  user: "user",
  database: "database",
  application: "application",
  client: "client",
  backend_type: "process",
  program: "program",
  function: "function",
  module: "module",
};

/** Dimensions that only stacks have. */
export const OF_CODE: readonly Dimension[] = ["function", "module"];

const FACTS: readonly SessionFact[] = ["user", "database", "application", "client", "backend_type", "program"];

export interface Filter {
  /** First second, and first one after the end. */
  from: number | null;
  to: number | null;
  /** Any word of one dimension, in all of several dimensions; for functions and modules all words. */
  words: Map<Dimension, string[]>;
}

export function noFilter(): Filter {
  return { from: null, to: null, words: new Map() };
}

export function isFiltered(filter: Filter): boolean {
  return filter.words.size > 0 || filter.from !== null || filter.to !== null;
}

/** The same with this word added, or removed if it was there. */
export function toggled(filter: Filter, dimension: Dimension, word: string): Filter {
  const words = new Map(filter.words);
  const before = words.get(dimension) ?? [];
  const after = before.includes(word) ? before.filter((other) => other !== word) : [...before, word];
  if (after.length > 0) words.set(dimension, after);
  else words.delete(dimension);
  return { ...filter, words };
}

/** The same with only these words of their dimensions, or without any if these were there. */
export function only(filter: Filter, asked: ReadonlyMap<Dimension, string[]>): Filter {
  const words = new Map(filter.words);
  const isThere = ([dimension, these]: [Dimension, string[]]) => {
    const before = filter.words.get(dimension) ?? [];
    return before.length === these.length && these.every((word) => before.includes(word));
  };
  const areThere = [...asked].every(isThere);
  for (const [dimension, these] of asked) {
    if (areThere) words.delete(dimension);
    else words.set(dimension, these);
  }
  return { ...filter, words };
}

/** The cells to use: those with stacks when code is chosen, else those with the finer windows. */
export function tableOf(of: Recording, filter: Filter): Table {
  return OF_CODE.some((dimension) => filter.words.has(dimension)) ? of.stacks : of.times;
}

/** Whether the filter distinguishes sessions that the stacks do not. */
export function isFinerThanStacks(of: Recording, filter: Filter): boolean {
  return of.alike.length > 0 && (["session", "client", "program"] as const).some((dimension) => filter.words.has(dimension));
}

/** The windows that a filter chooses: whole ones. */
function windowsOf(table: { first_s: number; width_s: number }, filter: Filter): [number, number] {
  const number = (second: number) => (second - table.first_s) / table.width_s;
  return [
    filter.from === null ? 0 : Math.floor(number(filter.from)),
    filter.to === null ? Number.POSITIVE_INFINITY : Math.ceil(number(filter.to)),
  ];
}

/** For each cell: 1 if it counts. Without times if all of time is shown. */
export function chosen(of: Recording, table: Table, filter: Filter, withTimes = true): Uint8Array {
  const takes = inTime(table, filter, withTimes);
  const { words } = filter;
  if (choosesSessions(filter)) keep(takes, table.session, alikeTaken(of, filter, table.leaf ? of.alike : []));
  if (words.has("query")) keep(takes, table.statement, flags(filter, "query", of.statements, (statement, word) => statement.query === word));
  if (words.has("wait") || words.has("wait_class")) keep(takes, table.wait, waitsTaken(of.waits, filter));
  if (words.has("state")) keep(takes, table.state, flags(filter, "state", of.states, (state, word) => state.toLowerCase() === word.toLowerCase()));
  if (words.has("session_state")) keep(takes, table.session_state, flags(filter, "session_state", of.session_states, (state, word) => state === word));
  if (table.leaf) {
    keepFunctions(of, table, takes, words.get("function") ?? []);
    keepModules(of, table, takes, words.get("module") ?? []);
  }
  return takes;
}

/** For each cell: 1 if it is in the chosen time. Cells are in order of windows. */
export function inTime(table: { rows: number; window: Uint32Array; first_s: number; width_s: number }, filter: Filter, withTimes: boolean): Uint8Array {
  const takes = new Uint8Array(table.rows);
  if (!withTimes) return takes.fill(1);
  const [first, end] = windowsOf(table, filter);
  return takes.fill(1, placeOf(table.window, first), placeOf(table.window, end));
}

/** The first cell of a window, or of a later one. */
function placeOf(windows: Uint32Array, window: number): number {
  let low = 0;
  let high = windows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (windows[middle]! < window) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Keeps the cells whose value is taken. */
export function keep(takes: Uint8Array, values: Uint32Array | Uint8Array, taken: Uint8Array): void {
  for (let row = 0; row < takes.length; row++) takes[row]! &= taken[values[row]!]!;
}

/** A session's name in a dimension. */
export function factOf(of: Recording, fact: SessionFact, session: number): string {
  return of.names[of.sessions[fact][session]!]!;
}

function flags<T>(filter: Filter, dimension: Dimension, values: T[], is: (value: T, word: string) => boolean) {
  const words = filter.words.get(dimension);
  return Uint8Array.from(values, (value) => (!words || words.some((word) => is(value, word)) ? 1 : 0));
}

/** Dimensions that distinguish sessions. */
const OF_SESSIONS: readonly Dimension[] = ["session", ...FACTS];

/** Whether sessions are chosen. */
export function choosesSessions(filter: Filter): boolean {
  return OF_SESSIONS.some((dimension) => filter.words.has(dimension));
}

/** For each session: 1 if one is chosen that the stored data does not distinguish from it. */
export function alikeTaken(of: Recording, filter: Filter, alike: readonly number[]): Uint8Array {
  const each = sessionsTaken(of, filter);
  if (alike.length === 0) return each;
  const taken = each.map(() => 0);
  each.forEach((isTaken, session) => {
    if (isTaken) taken[alike[session]!] = 1;
  });
  return taken;
}

function sessionsTaken(of: Recording, filter: Filter): Uint8Array {
  const taken = flags(filter, "session", of.sessions.pid, (pid, word) => String(pid) === word);
  for (const fact of FACTS) {
    const words = filter.words.get(fact);
    if (!words) continue;
    const names = new Set(words.map((word) => of.names.indexOf(word)));
    of.sessions[fact].forEach((name, session) => {
      if (!names.has(name)) taken[session] = 0;
    });
  }
  return taken;
}

/** A name as on the command line: class, event, or both, in upper or lower case; that of the idle wait, too. */
export function isCalled(wait: Pick<Wait, "class" | "event" | "recorded_event" | "label">, word: string): boolean {
  const name = word.toLowerCase();
  const recorded = `${wait.class}:${wait.recorded_event}`;
  return [wait.class, wait.event, wait.recorded_event, wait.label, recorded].some((called) => called.toLowerCase() === name);
}

function waitsTaken(waits: Wait[], filter: Filter): Uint8Array {
  const taken = flags(filter, "wait", waits, isCalled);
  const classes = filter.words.get("wait_class");
  if (classes) {
    waits.forEach((wait, at) => {
      if (!classes.includes(wait.class_by_cpu)) taken[at] = 0;
    });
  }
  return taken;
}
