// The data in the page of a recording: checked for consistency, and given types. The names of fields are those that the program writes.

import { recordedPaths, type RecordedPaths } from "./paths.ts";
import { type Unpacked, within } from "./unpack.ts";

/** Sections of the ledger; the third is background processes. */
export const DB_TIME = 0;
export const IDLE = 1;
/** Kinds of rest in a section: something to do, idle, idle in a transaction. */
export const RESTS = 3;
export const IN_TRANSACTION = 2;
/** Whether a cell at this place is DB time. */
export function isDbTime(place: number): boolean {
  return Math.floor(place / RESTS) === DB_TIME;
}
/** Flags of a cell. */
export const SAMPLED = 1;
export const POOLED = 2;

export interface Wait {
  label: string;
  class: string;
  event: string;
  recorded_event: string;
  class_by_cpu: string;
  kind: "none" | "event" | "unknown";
  idle: boolean;
}

export interface Statement {
  query: string;
  sql_id?: string;
  text?: string;
}

/** What the names of a kind of events are. */
export type NamedBy = "wait" | "query" | "other";

interface LatencyDictionaries extends Windows {
  /** If there are none: how to get them. */
  how_to_record: string | null;
  quantiles: string;
  lost: number;
  /** How sessions are distinguished. */
  apart: "each" | "alike" | "none";
  /** For each session the one that represents it; empty when each represents itself. */
  alike: number[];
  kinds: { kind: string; words: string; explanation: string; names: NamedBy }[];
  /** Kind, name, device, source. */
  series: [number, string, string, string][];
  /** Bounds in nanoseconds, the upper one exclusive; sorted once they are read. */
  buckets: [number, number][];
}

/** Events, in cells. */
export interface Latencies extends LatencyDictionaries {
  rows: number;
  window: Uint32Array;
  /** From 1; 0 = of none, or not known. */
  session: Uint32Array;
  of_series: Uint32Array;
  bucket: Uint32Array;
  count: Float64Array;
  sum: Float64Array;
  max: Float64Array;
}

/** What the server did for itself, or what was noted: see the report's timeline. */
export interface Mark {
  kind: "checkpoint" | "autovacuum" | "note";
  from_us: number;
  /** Equal to from_us for a moment. */
  to_us: number;
  text: string;
  colour: string;
}

interface Windows {
  width_s: number;
  first_s: number;
}

interface Dictionaries {
  dbtime: string;
  cpus: number;
  first_lines: string[];
  sentences: string[];
  quality: string[];
  unit: "time" | "samples" | "counts";
  clock: "utc" | "relative" | "none";
  start_us: number;
  from_us: number;
  to_us: number;
  are_times: boolean;
  /** If not, time is grouped by program. */
  knows_database: boolean;
  /** Why the database's view cannot be compared with what the operating system saw; empty if it can. */
  one_sided: string;
  /** What a session has in a window may have begun before it. */
  may_be_long: boolean;
  /** If not all time from begin to end is covered: the last second of each period that is (microseconds), and its length (nanoseconds). */
  periods?: [number, number][];
  gaps: [number, number][];
  marks: Mark[];
  no_timeline: string | null;
  no_statements: string | null;
  left_out_ns: number;
  /** Why it is not known who was waited for. */
  no_causes: string | null;
  cause_kinds: ("session" | "device" | "timer" | "client" | "process" | "prepared" | "network" | "other_host" | "unknown" | "left out")[];
  /** Kind, and places in links. */
  chains: number[][];
  /** Session, statement, wait, state of the session, state. */
  links: [number, number, number, number, number][];
  /** Of the lock table; the first stands for those for which there was no room. */
  waited_locks: string[];
  states: string[];
  state_groups: ("cpu" | "queue" | "blocked" | "unknown")[];
  session_states: string[];
  waits: Wait[];
  statements: Statement[];
  names: string[];
  sessions: Record<SessionColumn, number[]>;
  /** For each session the one that represents it among the stacks; empty when each represents itself. */
  alike: number[];
  functions: string[];
  modules: number[];
  names_of_modules: string[];
  kernel: number[];
  /** Modules as the report has them: programs, libraries, parts of the kernel. */
  code_modules: string[];
  /** For each function its own among these, from 1; 0 if it serves all. */
  code_of_functions: number[];
  preempted: number | null;
  times: Windows;
  stacks: Windows;
  causes: Windows;
  locks: Windows;
  latencies: LatencyDictionaries;
  palette: {
    states: [string, string][];
    classes: [string, string][];
    others: string[];
    other: string;
    not_known: string;
    cpus: string;
    /** From few to many. */
    heat: string[];
  };
}

export type SessionFact = "user" | "database" | "application" | "client" | "backend_type" | "program";
type SessionColumn = SessionFact | "pid" | "foreground";

/** Cells, in order of time. */
export interface Table {
  rows: number;
  width_s: number;
  first_s: number;
  window: Uint32Array;
  session: Uint32Array;
  statement: Uint32Array;
  wait: Uint32Array;
  /** Leaf of the call path; none if stacks are not distinguished. */
  leaf: Uint32Array | null;
  /** Who was waited for, of the causes; none in the others. */
  chain: Uint32Array | null;
  /** Which lock was waited for, of the locks; none in the others. */
  lock: Uint32Array | null;
  ns: Float64Array;
  samples: Uint32Array;
  place: Uint8Array;
  state: Uint8Array;
  session_state: Uint8Array;
  flags: Uint8Array;
}

export interface Recording extends Omit<Dictionaries, "times" | "stacks" | "causes" | "locks" | "latencies"> {
  times: Table;
  stacks: Table;
  causes: Table;
  /** What looks at the lock table stand for. */
  locks: Table;
  latencies: Latencies;
  paths: RecordedPaths;
  /** For each place in the paths the module whose time it is, on a CPU and off it. */
  codeOnCpu: Uint32Array;
  codeOffCpu: Uint32Array;
}

/** Builds a recording from unpacked data. */
export function recordingOf(unpacked: Unpacked): Recording {
  const { json, long, short, wide } = unpacked;
  const of = json as Dictionaries;
  const table = (name: "times" | "stacks" | "causes" | "locks"): Table => {
    const ns = wide(`${name}.ns`);
    const found: Table = {
      rows: ns.length,
      width_s: of[name].width_s,
      first_s: of[name].first_s,
      window: long(`${name}.window`),
      session: long(`${name}.session`),
      statement: long(`${name}.statement`),
      wait: long(`${name}.wait`),
      leaf: name === "stacks" ? long("stacks.leaf") : null,
      chain: name === "causes" ? long("causes.chain") : null,
      lock: name === "locks" ? long("locks.lock") : null,
      ns,
      samples: long(`${name}.samples`),
      place: short(`${name}.place`),
      state: short(`${name}.state`),
      session_state: short(`${name}.session_state`),
      flags: short(`${name}.flags`),
    };
    within(found.session, of.sessions.pid.length);
    within(found.statement, of.statements.length);
    within(found.wait, of.waits.length);
    within(found.state, of.states.length);
    within(found.session_state, of.session_states.length);
    within(found.place, 3 * RESTS);
    if (found.leaf) within(found.leaf, paths.callers.length);
    if (found.chain) within(found.chain, of.chains.length);
    if (found.lock) within(found.lock, of.waited_locks.length);
    return found;
  };
  const paths = recordedPaths(of.functions, unpacked);
  const [codeOnCpu, codeOffCpu] = [long("nodes.on_cpu"), long("nodes.off_cpu")];
  for (const code of [codeOnCpu, codeOffCpu]) within(code, of.code_modules.length);
  within(of.code_of_functions, of.code_modules.length + 1);
  for (const [kind = -1, ...links] of of.chains) {
    within([kind], of.cause_kinds.length);
    within(links, of.links.length);
  }
  const lengths = [of.sessions.pid.length, of.statements.length, of.waits.length, of.session_states.length, of.states.length];
  for (const link of of.links) link.forEach((place, at) => within([place], lengths[at]!));
  return { ...of, times: table("times"), stacks: table("stacks"), causes: table("causes"), locks: table("locks"), latencies: latencies(of, long, wide), paths, codeOnCpu, codeOffCpu };
}

function latencies(of: Dictionaries, long: (name: string) => Uint32Array, wide: (name: string) => Float64Array): Latencies {
  const found: Latencies = {
    ...of.latencies,
    rows: long("latencies.window").length,
    window: long("latencies.window"),
    session: long("latencies.session"),
    of_series: long("latencies.series"),
    bucket: long("latencies.bucket"),
    count: wide("latencies.count"),
    sum: wide("latencies.sum"),
    max: wide("latencies.max"),
  };
  within(found.session, of.sessions.pid.length + 1);
  within(found.of_series, found.series.length);
  within(found.bucket, found.buckets.length);
  const { buckets } = found;
  const order = Array.from(buckets.keys()).toSorted((one, other) => buckets[one]![0] - buckets[other]![0] || buckets[one]![1] - buckets[other]![1]);
  const places = new Uint32Array(order.length);
  order.forEach((bucket, place) => {
    places[bucket] = place;
  });
  found.buckets = order.map((bucket) => buckets[bucket]!);
  found.bucket = found.bucket.map((bucket) => places[bucket]!);
  within(found.series.map(([kind]) => kind), found.kinds.length);
  return found;
}

/** The parts of a recording that a flame graph needs. */
export type FlameSource = Pick<
  Recording,
  "waits" | "states" | "state_groups" | "statements" | "functions" | "modules" | "names_of_modules" | "kernel" | "code_modules" | "code_of_functions" | "paths" | "palette" | "are_times" | "unit"
>;

/** Cells that a flame graph is drawn from. */
export interface FlameTable {
  rows: number;
  wait: Uint32Array;
  state: Uint8Array;
  statement: Uint32Array;
  leaf: Uint32Array | null;
  place: Uint8Array;
  ns: Float64Array;
  samples: Uint32Array;
}
