// Who was waited for: under each wait event whom its sessions waited for, whom these waited for, and so on.

import { type CausedWait, type CauseNode, type Causes, notFollowed } from "./causes.ts";
import * as colours from "./colours.ts";
import type { Recording } from "./data.ts";
import { button, make, more } from "./dom.ts";
import { type Dimension, DIMENSION_NAMES, factOf, type Filter, isFiltered } from "./filter.ts";
import type { Order } from "./ranked_table.ts";
import { statementLabel } from "./timeline.ts";
import { type LockShare, OTHERS } from "./waited_locks.ts";
import { amount, cell, counted, oneLine, percent } from "./words.ts";

/** Wait events, and causes below each of them, that are shown before the others are requested. */
const WAITS = 6;
const CAUSES = 8;
/** Locks of a wait that are shown before the others are requested, and afterwards. */
const LOCKS = 3;
const ALL_LOCKS = 200;
/** The part of the time without a known lock is mentioned from one in this many. */
const MANY = 100;
/** The usual order of wait events. */
const TIME = "time";
/** The word for a column in the address; those without one cannot be sorted by. Without a name it is that of the unit. */
const COLUMNS = [{ word: "wait", name: "waited for" }, { word: "sessions", name: "which was" }, { word: TIME, name: null }, { word: null, name: "%" }] as const;
/** Maximum length of a statement. */
const LONGEST = 100;

function isIdleInTransaction(sessionState: string): boolean {
  return sessionState.startsWith("idle in ");
}

function sumOf(shares: LockShare[]): number {
  return shares.reduce((all, { ns }) => all + ns, 0);
}

export class CausesView {
  readonly element = make("div", { class: "causes" });
  private showsAll = false;
  private order: Order = { column: TIME, isReversed: false };
  private redraw: (() => void) | null = null;

  constructor(
    private readonly of: Recording,
    private readonly choose: (dimension: Dimension, word: string) => void,
    private readonly sorted: (order: Order | null) => void,
  ) {}

  /** Wait events in this order, the causes of each by their time; without an order, as usual. */
  sortBy(order: Order | undefined): void {
    const column = COLUMNS.find(({ word }) => word === order?.column && word !== null)?.word ?? TIME;
    const isReversed = column === order?.column && order.isReversed;
    if (column === this.order.column && isReversed === this.order.isReversed) return;
    this.order = { column, isReversed };
    const wasOnHead = this.element.querySelector("thead")?.contains(document.activeElement) ?? false;
    this.redraw?.();
    if (wasOnHead) this.element.querySelector<HTMLElement>("th[aria-sort$=ending] button")?.focus({ preventScroll: true });
  }

  private inOrder(waits: CausedWait[]): CausedWait[] {
    const { column, isReversed } = this.order;
    const label = ({ wait }: CausedWait) => this.of.waits[wait]!.label;
    const compare = (one: CausedWait, other: CausedWait) => {
      if (column === "wait") return label(one) < label(other) ? -1 : 1;
      return column === "sessions" ? other.sessions.size - one.sessions.size : other.ns - one.ns;
    };
    return waits.toSorted((one, other) => compare(one, other) * (isReversed ? -1 : 1));
  }

  private head({ word, name }: (typeof COLUMNS)[number]): HTMLElement {
    const text = name ?? (this.of.are_times ? "time, s" : this.of.unit);
    const kind = word === TIME || word === null ? "number" : "";
    if (word === null) return make("th", { scope: "col", class: kind }, text);
    const { column, isReversed } = this.order;
    const isSorted = word === column;
    const isRising = isReversed !== (word === "wait");
    const title = make("th", { scope: "col", class: kind, "aria-sort": isSorted ? (isRising ? "ascending" : "descending") : "none" });
    const order = { column: word, isReversed: isSorted && !isReversed };
    title.append(button(`${text}${isSorted ? (isRising ? " ▲" : " ▼") : ""}`, {}, () => this.sorted(word === TIME && !order.isReversed ? null : order)));
    return title;
  }

  /** Draws them, or says why there are none; true when there are. */
  draw(causes: Causes | null, filter: Filter): boolean {
    this.redraw = () => this.draw(causes, filter);
    const why = this.whyEmpty(causes, filter);
    if (why !== null || !causes) {
      this.element.replaceChildren(make("p", { class: "empty" }, why));
      return false;
    }
    const { of } = this;
    const summary = make("p", {}, make("strong", {}, `Blocked DB time ${amount(of, causes.blocked)}`));
    summary.append(`, of which ${percent(causes.followed, causes.blocked)} % was traced to whoever held the lock or ended the wait, and further if that session was blocked too.`);
    summary.append(make("small", {}, " (times of the ledger, divided by samples)"));
    summary.dataset.ns = String(causes.blocked);
    summary.dataset.followed = String(causes.followed);
    const waits = this.showsAll ? this.inOrder(causes.waits) : this.inOrder(causes.waits).slice(0, WAITS);
    const body = waits.map((wait) => this.wait(wait, causes));
    const head = COLUMNS.map((column) => this.head(column));
    const table = make("table", {}, make("caption", { class: "unseen" }, "Who was waited for"), make("thead", {}, make("tr", {}, ...head)), ...body.map(({ rows }) => make("tbody", {}, ...rows)));
    const hidden = body.reduce((sum, ofWait) => sum + ofWait.hidden, 0) + causes.waits.length - waits.length;
    this.element.replaceChildren(summary, make("div", { class: "scroll" }, table));
    if (hidden > 0) {
      this.element.append(
        more(`Show ${counted(hidden, "smaller row")}`, `Not printed: ${counted(hidden, "smaller row")}.`, () => {
          this.showsAll = true;
          this.draw(causes, filter);
        }),
      );
    }
    return true;
  }

  private whyEmpty(causes: Causes | null, filter: Filter): string | null {
    const names = notFollowed(filter).map((dimension) => DIMENSION_NAMES[dimension]);
    if (this.of.no_causes !== null) return this.of.no_causes;
    if (names.length > 0) return `Who was waited for is not kept by ${names.join(" and ")}: clear that filter to see it.`;
    if (causes && causes.blocked > 0) return null;
    return isFiltered(filter) ? "Nothing in the selection was blocked." : "No DB time was blocked.";
  }

  private wait({ wait, sessions, ns, locks, causes, places }: CausedWait, all: Causes): { rows: HTMLElement[]; hidden: number } {
    const { of } = this;
    const label = of.waits[wait]!.label;
    const mark = make("i", { class: "swatch", "aria-hidden": "true" });
    mark.style.background = colours.ofWait(of, label) ?? of.palette.other;
    const name = button(oneLine(label), { "aria-label": `Only wait event ${oneLine(label)}` }, () => this.choose("wait", label));
    name.prepend(mark);
    const first = this.line(make("th", { scope: "rowgroup" }, name), `waited by ${counted(sessions.size, "session")}`, ns, percent(ns, all.blocked), "");
    first.className = "event";
    first.dataset.wait = label;
    first.dataset.sessions = String(sessions.size);
    const rows = [first];
    let left = this.showsAll ? Number.POSITIVE_INFINITY : CAUSES;
    const add = (nodes: Iterable<CauseNode>, depth: number) => {
      for (const node of nodes) {
        if (left-- <= 0) return;
        rows.push(this.cause(node, depth, ns));
        add(node.children, depth + 1);
      }
    };
    add(causes, 1);
    let hidden = places + 1 - rows.length;
    if (locks.length > 0) {
      const named = locks.slice(0, this.showsAll ? ALL_LOCKS : LOCKS);
      if (!this.showsAll) hidden += locks.length - named.length;
      rows.splice(1, 0, this.locks(named, locks.slice(named.length), ns));
    }
    return { rows, hidden };
  }

  /** For which locks of the lock table sessions waited: some with their names, the others together, and what is not known. */
  private locks(named: LockShare[], others: LockShare[], whole: number): HTMLElement {
    const { of } = this;
    const line = make("td", { colspan: "4" }, "for ");
    const part = (name: string, ns: number) => {
      const text = make("span", {}, `${name}: ${amount(of, ns)}`);
      text.dataset.ns = String(ns);
      if (line.childElementCount > 0) line.append(", ");
      line.append(text);
      return text;
    };
    for (const { lock, sessions, ns } of named) {
      const text = part(lock === OTHERS ? "[left out of this page]" : oneLine(of.waited_locks[lock]!), ns);
      text.title = `waited for by ${counted(sessions, "session")}`;
      text.dataset.sessions = String(sessions);
    }
    if (others.length > 0) part(counted(others.length, "other"), sumOf(others));
    const unknown = whole - sumOf(named) - sumOf(others);
    if (unknown * MANY >= whole) part("[not known]", unknown);
    return make("tr", { class: "locks" }, line);
  }

  private cause(node: CauseNode, depth: number, whole: number): HTMLElement {
    const who = make("th", { scope: "row" }, ...this.who(node));
    who.style.setProperty("--depth", String(Math.min(depth, 12)));
    const row = this.line(who, this.what(node), node.ns, percent(node.ns, whole), String(depth));
    row.dataset.kind = node.kind ?? "";
    return row;
  }

  private line(who: HTMLElement, what: string, ns: number, share: string, depth: string): HTMLElement {
    const part = make("td", { class: "number share" }, share);
    part.style.setProperty("--part", `${share}%`);
    const row = make("tr", {}, who, make("td", {}, what), make("td", { class: "number" }, cell(this.of, ns)), part);
    row.dataset.ns = String(ns);
    row.dataset.depth = depth;
    return row;
  }

  private who({ kind, link, sessions }: CauseNode): Node[] {
    const { of } = this;
    if (!link) {
      const words = { session: "[not known]", unknown: "[not known]", device: "a device", timer: "a timer", client: "its own client", process: "a process outside of the database", prepared: "a prepared transaction, which no process has", network: "the network", other_host: "another host, or the network", "left out": "[left out of this page]" };
      return [document.createTextNode(words[kind ?? "unknown"])];
    }
    const [session, statement, , sessionState] = link;
    const parts: Node[] = [];
    if (sessions === 1) {
      const pid = String(of.sessions.pid[session]);
      const user = factOf(of, "user", session) || factOf(of, "backend_type", session);
      parts.push(button(pid === "0" ? "[unknown]" : `pid ${pid}`, { "aria-label": `Only session ${pid}` }, () => this.choose("session", pid)));
      parts.push(document.createTextNode(`, ${oneLine(user)}`));
    } else parts.push(document.createTextNode(counted(sessions, "session")));
    const { query } = of.statements[statement]!;
    if (query !== "0") {
      const text = statementLabel(of, statement);
      const short = text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
      const isLast = isIdleInTransaction(of.session_states[sessionState]!);
      parts.push(document.createTextNode(isLast ? ", last: " : ": "), button(short, { class: "statement", "aria-label": `Only query ${query}`, title: text }, () => this.choose("query", query)));
    }
    return parts;
  }

  /** What it was doing meanwhile. */
  private what({ kind, link }: CauseNode): string {
    if (!link) return "";
    const { of } = this;
    const wait = oneLine(of.waits[link[2]]!.label);
    const sessionState = of.session_states[link[3]]!;
    switch (kind) {
      case null:
        return `${wait}, waiting itself`;
      case "client":
        if (of.waits[link[2]]!.label.endsWith(":RecoveryPause")) return `${wait}, until a client resumes it`;
        return isIdleInTransaction(sessionState) ? `${sessionState} (its client)` : "waiting for its client";
      case "device":
        return `${wait}, on a device`;
      case "timer":
        return `${wait}, on a timer`;
      case "process":
        return `${wait}, on a process outside of the database`;
      case "prepared":
        return `${wait}, on a prepared transaction`;
      case "network":
        return `${wait}, on the network`;
      case "other_host":
        return `${wait}, on another host or the network`;
      case "session":
        if (of.states[link[4]] === "stopped") return "stopped by a signal";
        return of.state_groups[link[4]] === "queue" ? "waiting for a CPU" : "on a CPU";
      default:
        return `${wait}, further on [not known]`;
    }
  }
}
