// Statements, sessions and functions by their time.

import type { Blocker } from "./blockers.ts";
import { isDbTime, type Recording, type SessionFact, type Table } from "./data.ts";
import { factOf } from "./filter.ts";
import type { FunctionTime } from "./functions.ts";
import type { ModuleTime } from "./modules.ts";
import { pairsOf } from "./pairs.ts";
import { type Column, type Order, RankedTable } from "./ranked_table.ts";
import { statementLabel } from "./timeline.ts";
import { cell, nameOr, oneLine, percent } from "./words.ts";

export interface StatementTime {
  statement: number;
  ns: number;
  mainWait: number;
  mainWaitNs: number;
  mainState: number;
  mainStateNs: number;
}

export interface SessionTime {
  session: number;
  /** DB time of a client's session, time outside of idle waits of another. */
  active: number;
  mainWait: number;
}

/** What is shown about the sessions of a database. */
const FACTS: readonly SessionFact[] = ["user", "database", "application", "client", "backend_type"];

/** The whole that all shares refer to. */
export interface Whole {
  dbTime: number;
  elapsed: number;
}

/** DB time by statement. */
export function statementTimes(of: Recording, table: Table, takes: Uint8Array): StatementTime[] {
  const states = of.states.length;
  const pairs = pairsOf(table.statement, table.wait, of.waits.length);
  const byWait = new Float64Array(pairs.count);
  const byState = new Float64Array(of.statements.length * states);
  const isThere = new Uint8Array(of.statements.length);
  for (let row = 0; row < table.rows; row++) {
    if (!takes[row] || !isDbTime(table.place[row]!)) continue;
    byWait[pairs.of[row]!]! += table.ns[row]!;
    byState[table.statement[row]! * states + table.state[row]!]! += table.ns[row]!;
    isThere[table.statement[row]!] = 1;
  }
  const times: StatementTime[] = [];
  const rows: (StatementTime | undefined)[] = [];
  for (let statement = 0; statement < isThere.length; statement++) {
    if (!isThere[statement]) continue;
    const row = { statement, ns: 0, mainWait: -1, mainWaitNs: 0, mainState: -1, mainStateNs: 0 };
    for (let state = 0; state < states; state++) {
      const ns = byState[statement * states + state]!;
      row.ns += ns;
      if (ns > row.mainStateNs) [row.mainState, row.mainStateNs] = [state, ns];
    }
    times.push(row);
    rows[statement] = row;
  }
  for (let pair = 0; pair < pairs.count; pair++) {
    const row = rows[pairs.one[pair]!];
    if (row && isMore(of, pairs.other[pair]!, byWait[pair]!, row.mainWait, row.mainWaitNs)) [row.mainWait, row.mainWaitNs] = [pairs.other[pair]!, byWait[pair]!];
  }
  return times;
}

/** Time by session. */
export function sessionTimes(of: Recording, table: Table, takes: Uint8Array): SessionTime[] {
  const pairs = pairsOf(table.session, table.wait, of.waits.length);
  const byWait = new Float64Array(pairs.count);
  const isThere = new Uint8Array(of.sessions.pid.length);
  // The server's first process does nothing but wait, without reporting it.
  const isFirst = of.sessions.pid.map((_, session) => factOf(of, "backend_type", session) === "postmaster");
  const isResting = (row: number) => isFirst[table.session[row]!]! && of.state_groups[table.state[row]!] === "blocked";
  for (let row = 0; row < table.rows; row++) {
    if (!takes[row]) continue;
    isThere[table.session[row]!] = 1;
    if (isDbTime(table.place[row]!) || !(of.waits[table.wait[row]!]!.idle || isResting(row))) byWait[pairs.of[row]!]! += table.ns[row]!;
  }
  const times: (SessionTime & { mainWaitNs: number })[] = [];
  const rows: (SessionTime & { mainWaitNs: number } | undefined)[] = [];
  for (let session = 0; session < isThere.length; session++) {
    if (!isThere[session]) continue;
    const row = { session, active: 0, mainWait: -1, mainWaitNs: 0 };
    times.push(row);
    rows[session] = row;
  }
  for (let pair = 0; pair < pairs.count; pair++) {
    const row = rows[pairs.one[pair]!];
    if (!row) continue;
    row.active += byWait[pair]!;
    if (isMore(of, pairs.other[pair]!, byWait[pair]!, row.mainWait, row.mainWaitNs)) [row.mainWait, row.mainWaitNs] = [pairs.other[pair]!, byWait[pair]!];
  }
  return times.toSorted((one, other) => other.active - one.active || one.session - other.session);
}

/** Whether there is more time in a wait than in the one with most so far; among equal ones the first by name wins. */
function isMore(of: Recording, wait: number, ns: number, most: number, mostNs: number): boolean {
  return ns > mostNs || (ns > 0 && ns === mostNs && of.waits[wait]!.label < of.waits[most]!.label);
}

const sessionsOf = (whole: Whole, ns: number) => (whole.elapsed > 0 ? (ns / whole.elapsed).toFixed(2) : "");

/** What a table does when a row is clicked, or the order changes; what it says without rows. */
export interface Acts {
  isChosen: (word: string) => boolean;
  choose: (word: string) => void;
  sorted: (order: Order | null) => void;
  whyEmpty: () => string;
}

/** The tables. `whole` is called whenever one is drawn. */
export function statementTable(of: Recording, whole: () => Whole, { isChosen, choose, sorted, whyEmpty }: Acts) {
  const query = (row: StatementTime) => of.statements[row.statement]!.query;
  const columns: Column<StatementTime>[] = [
    { word: "db_time", name: of.are_times ? "DB time, s" : of.unit, number: (row) => row.ns, text: (row) => cell(of, row.ns) },
    { word: "share", name: "%", number: (row) => row.ns, text: (row) => percent(row.ns, whole().dbTime) },
    { word: "aas", name: "AAS", number: (row) => row.ns, text: (row) => (of.are_times ? sessionsOf(whole(), row.ns) : "") },
    { word: "main_wait", name: "main wait", text: (row) => (row.mainWait < 0 ? "" : `${oneLine(of.waits[row.mainWait]!.label)} ${percent(row.mainWaitNs, row.ns)} %`) },
    { word: "main_state", name: "main state", text: (row) => (row.mainState < 0 ? "" : `${of.states[row.mainState]} ${percent(row.mainStateNs, row.ns)} %`) },
    { word: "statement", name: "statement", text: (row) => statementLabel(of, row.statement), isWide: true },
    { word: "query", name: "query", text: (row) => of.statements[row.statement]!.sql_id ?? (query(row) === "0" ? "" : query(row)) },
  ];
  return new RankedTable<StatementTime>("Statements by DB time", columns, "db_time", query, (row) => isChosen(query(row)), (row) => choose(query(row)), sorted, true, whyEmpty);
}

export function sessionTable(of: Recording, whole: () => Whole, { isChosen, choose, sorted, whyEmpty }: Acts) {
  const pid = (row: SessionTime) => String(of.sessions.pid[row.session]);
  const fact = (name: SessionFact) => ({
    word: name,
    name: name === "backend_type" ? "process" : name,
    text: (row: SessionTime) => nameOr(factOf(of, name, row.session)),
  });
  const isForeground = (row: SessionTime) => of.sessions.foreground[row.session] === 1;
  const ofClient = (row: SessionTime) => (isForeground(row) ? row.active : 0);
  const ofServer = (row: SessionTime) => (isForeground(row) ? 0 : row.active);
  const columns: Column<SessionTime>[] = [
    { word: "pid", name: "pid", text: (row) => (pid(row) === "0" ? "[unknown]" : pid(row)) },
    { word: "db_time", name: of.are_times ? "DB time, s" : of.unit, number: ofClient, text: (row) => cell(of, ofClient(row)) },
    { word: "share", name: "%", number: ofClient, text: (row) => percent(ofClient(row), isForeground(row) ? whole().dbTime : 0) },
    { word: "main_wait", name: "main wait", text: (row) => (row.mainWait < 0 ? "" : oneLine(of.waits[row.mainWait]!.label)) },
    ...(of.knows_database ? FACTS : (["program"] as const)).map(fact),
    { word: "background", name: "background", number: ofServer, text: (row) => cell(of, ofServer(row)) },
  ];
  return new RankedTable<SessionTime>("Sessions by DB time", columns, "db_time", (row) => String(row.session), (row) => isChosen(pid(row)), (row) => choose(pid(row)), sorted, true, whyEmpty);
}

export function functionTable(of: Recording, whole: () => Whole, { isChosen, choose, sorted, whyEmpty }: Acts) {
  const name = (row: FunctionTime) => of.functions[row.function]!;
  const columns: Column<FunctionTime>[] = [
    { word: "self", name: of.are_times ? "self, s" : "self", number: (row) => row.self, text: (row) => cell(of, row.self) },
    { word: "self_share", name: "self %", number: (row) => row.self, text: (row) => percent(row.self, whole().dbTime) },
    { word: "total", name: of.are_times ? "total, s" : "total", number: (row) => row.total, text: (row) => cell(of, row.total) },
    { word: "total_share", name: "total %", number: (row) => row.total, text: (row) => percent(row.total, whole().dbTime) },
    { word: "function", name: "function", text: (row) => oneLine(name(row)) + (of.kernel[row.function] ? " [k]" : ""), isWide: true },
    { word: "module", name: "module", text: (row) => oneLine(of.names_of_modules[of.modules[row.function]!]!) },
  ];
  return new RankedTable<FunctionTime>("Functions by time in them", columns, "self", (row) => String(row.function), (row) => isChosen(name(row)), (row) => choose(name(row)), sorted, true, whyEmpty);
}

export function moduleTable(of: Recording, whole: () => Whole, { isChosen, choose, sorted, whyEmpty }: Acts) {
  const name = (row: ModuleTime) => of.code_modules[row.module]!;
  const columns: Column<ModuleTime>[] = [
    { word: "self", name: of.are_times ? "self, s" : "self", number: (row) => row.self, text: (row) => cell(of, row.self) },
    { word: "self_share", name: "self %", number: (row) => row.self, text: (row) => percent(row.self, whole().dbTime) },
    { word: "total", name: of.are_times ? "anywhere, s" : "anywhere", number: (row) => row.total, text: (row) => cell(of, row.total) },
    { word: "total_share", name: "anywhere %", number: (row) => row.total, text: (row) => percent(row.total, whole().dbTime) },
    { word: "module", name: "module", text: (row) => oneLine(name(row)), isWide: true },
  ];
  return new RankedTable<ModuleTime>("Modules by time in them", columns, "self", name, (row) => isChosen(name(row)), (row) => choose(name(row)), sorted, true, whyEmpty);
}

export function blockerTable(of: Recording, { isChosen, choose, sorted, whyEmpty }: Acts) {
  const pid = (row: Blocker) => String(of.sessions.pid[row.session]);
  const facts = (["user", "application", "backend_type"] as const).map((name) => ({
    word: name,
    name: name === "backend_type" ? "process" : name,
    text: (row: Blocker) => nameOr(factOf(of, name, row.session)),
  }));
  const columns: Column<Blocker>[] = [
    { word: "pid", name: "pid", text: (row) => (pid(row) === "0" ? "[unknown]" : pid(row)) },
    { word: "waited_for", name: of.are_times ? "waited for, s" : of.unit, number: (row) => row.ns, text: (row) => cell(of, row.ns) },
    { word: "blocked", name: "while blocked itself, s", number: (row) => row.blocked, text: (row) => cell(of, row.blocked) },
    { word: "waiters", name: "waiters", number: (row) => row.waiters, text: (row) => String(row.waiters) },
    ...facts,
  ];
  return new RankedTable<Blocker>("Sessions by the time that others waited for them", columns, "waited_for", (row) => String(row.session), (row) => isChosen(pid(row)), (row) => choose(pid(row)), sorted, true, whyEmpty);
}
