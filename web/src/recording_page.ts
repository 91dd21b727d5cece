// The page of a recording: draws it as the address says.

import { Address } from "./address.ts";
import { type Causes, Chains, notFollowed } from "./causes.ts";
import { CausesView } from "./causes_view.ts";
import { DB_TIME, type Recording } from "./data.ts";
import { drawDatabaseView } from "./database_bars.ts";
import { databaseView } from "./database_view.ts";
import { button, choice, hint, make, section, shownOnce, Tip, toggle } from "./dom.ts";
import { elapsedNs } from "./elapsed.ts";
import { chosen, DIMENSION_NAMES, DIMENSIONS, type Dimension, type Filter, isFiltered, isFinerThanStacks, noFilter, only, tableOf, toggled } from "./filter.ts";
import { type Flame, Flames, MODES } from "./flame.ts";
import { FlameView } from "./flame_view.ts";
import { keepingFocus } from "./focus.ts";
import { type FunctionTime, TimesByFunction } from "./functions.ts";
import { rangeWords } from "./histogram.ts";
import { Kept } from "./kept.ts";
import { LatenciesView } from "./latencies_view.ts";
import { type Ledger, ledger } from "./ledger.ts";
import { LedgerView } from "./ledger_view.ts";
import { type ModuleTime, TimesByModule } from "./modules.ts";
import { Parts } from "./parts.ts";
import { FIRST } from "./paths.ts";
import type { Order } from "./ranked_table.ts";
import { blockerTable, functionTable, moduleTable, sessionTable, sessionTimes, statementTable, statementTimes, type Whole } from "./tables.ts";
import { statementLabel, TIMELINE_BY, type Timeline, timeline } from "./timeline.ts";
import { TimelineView } from "./timeline_view.ts";
import { SearchBox } from "./search_box.ts";
import { trustLine } from "./trust.ts";
import { LEVEL_CHOICES, levelsOf, read, type TableName, type View, type Zoom, written } from "./view.ts";
import { amount, clockTime, counted, oneLine, percent, seconds, shown } from "./words.ts";

/** Maximum length of the words of a chip. */
const LONGEST_CHIP = 60;
/** Answers of each kind to keep: this one, and the one before, which is often requested again. */
const KEPT = 2;

export class RecordingPage {
  private view: View;
  private readonly address: Address;
  private whole: Whole = { dbTime: 0, elapsed: 0 };
  private isEmptyByFilter = false;
  private readonly tip = new Tip();
  private readonly chips = make("div", { class: "chips", role: "group", "aria-label": "Selection" });
  /** The same in words, for screen readers. */
  private readonly said = make("p", { class: "unseen", role: "status" });
  private readonly summary = make("p", { class: "summary", role: "status" });
  private readonly sentences = make("div", { class: "sentences" });
  private readonly database = make("div", { class: "database" });
  private readonly searchBox: SearchBox;
  private readonly stacksNote = make("p", { class: "note" });
  private readonly sessionsNote = make("p", { class: "empty", hidden: "" }, "Functions or modules are selected, and this page has no room for stacks by session: clear these filters to see sessions.");
  private readonly sqlNote = make("p", { class: "empty" });
  private readonly ledgerView: LedgerView;
  private readonly timelineView: TimelineView;
  private readonly flameView: FlameView;
  private readonly causesView: CausesView;
  private readonly latenciesView: LatenciesView;
  private readonly causesNote = make("p", { class: "note" });
  private readonly blockersTitle = make("h3", {}, "Sessions by the time that others waited for them");
  private readonly blockersNote = make("p", { class: "note" }, "A session that waits for a chain waits for each session in it, so 'waited for' does not sum to the total.");
  private readonly modulesNote = make("p", { class: "note" }, "Programs, libraries and parts of the kernel. Time belongs to the known function that was called last; a sleep to the caller of the scheduler.", hint(" Click one to select everything with its code anywhere on the path."));
  private readonly blockers;
  private readonly statements;
  private readonly sessions;
  private readonly functions;
  private readonly modules;
  private readonly by;
  private readonly mode;
  private readonly levels;
  private readonly first;
  private readonly wholeStacks;
  private readonly direction;
  /** Built on demand. */
  private chains: Chains | null = null;
  private readonly flames: Flames;
  /** What is drawn. */
  private readonly filtered = new Kept<void>(1);
  private readonly chipped = new Kept<void>(1);
  private readonly takes = new Kept<Uint8Array>(1);
  private readonly takesOfStacks = new Kept<Uint8Array>(1);
  private readonly line = new Kept<Timeline | null>(KEPT);
  private readonly causes = new Kept<Causes>(KEPT);
  private readonly flame = new Kept<Flame>(KEPT);
  private readonly byFunction = new Kept<FunctionTime[]>(KEPT);
  private readonly byModule = new Kept<ModuleTime[]>(KEPT);
  private parts: Parts | null = null;
  private readonly functionTimes: TimesByFunction;
  private readonly moduleTimes: TimesByModule;

  constructor(private readonly of: Recording) {
    this.flames = new Flames(of, of.stacks);
    this.functionTimes = new TimesByFunction(of);
    this.moduleTimes = new TimesByModule(of);
    this.view = read(of, location.hash);
    this.address = new Address(() => written(of, this.view));
    const choose = (dimension: Dimension, word: string) => this.toggle([[dimension, word]]);
    this.ledgerView = new LedgerView(of, (words) => this.toggle(words));
    this.timelineView = new TimelineView(of, this.tip, (range) => this.chooseTime(range), choose);
    this.flameView = new FlameView(of, this.tip, choose, () => this.whyNoStacks(), (zoom, isQuick) => this.zoomed(zoom, isQuick));
    this.causesView = new CausesView(of, choose, (order) => this.sorted("causes", order));
    const has = (dimension: Dimension) => (word: string) => this.view.filter.words.get(dimension)?.includes(word) ?? false;
    const whole = () => this.whole;
    const acts = (table: TableName, dimension: Dimension) => ({
      isChosen: has(dimension),
      choose: (word: string) => choose(dimension, word),
      sorted: (order: Order | null) => this.sorted(table, order),
      whyEmpty: () => (this.isEmptyByFilter ? "No time in the selection." : "No time in this recording."),
    });
    this.blockers = blockerTable(of, acts("waited", "session"));
    this.statements = statementTable(of, whole, acts("sql", "query"));
    this.sessions = sessionTable(of, whole, acts("who", "session"));
    this.functions = functionTable(of, whole, acts("functions", "function"));
    this.modules = moduleTable(of, whole, acts("modules", "module"));
    this.searchBox = new SearchBox((search) => {
      this.view = { ...this.view, search };
      this.address.replace();
      this.flameView.find(search);
    });
    const change = (part: Partial<View>) => this.go({ ...this.view, ...part });
    this.latenciesView = new LatenciesView(of, this.tip, (range) => this.chooseTime(range), (latency) => change({ latency }), (order) => this.sorted("latency", order));
    this.by = choice("by", TIMELINE_BY.filter((by) => by !== "program" || !of.knows_database), (by) => DIMENSION_NAMES[by], (by) => change({ by }));
    this.mode = choice("time", MODES, (mode) => ({ all: "on CPU and off CPU", "on-cpu": "on CPU", "off-cpu": "off CPU" })[mode], (mode) => change({ mode, zoom: null }));
    this.levels = choice("levels", LEVEL_CHOICES, (levels) => (levels === "none" ? "call paths only" : levels.replaceAll(",", ", ")), (levels) => change({ levels, zoom: null }));
    this.first = choice("paths", FIRST, (first) => `${first} first`, (first) => change({ first, zoom: null }));
    this.wholeStacks = toggle("whole stacks", (areWhole) => change({ areWhole, zoom: null }));
    this.wholeStacks.element.hidden = !this.flames.paths.haveStart;
    this.direction = choice("root", ["top", "bottom"] as const, (at) => `at the ${at}`, (at) => change({ icicle: at === "top" }));
    addEventListener("hashchange", () => this.follow());
    addEventListener("popstate", () => this.follow());
  }

  /** What happened and when is shown first, the rest as soon as the browser has painted that. */
  async show(into: HTMLElement): Promise<void> {
    const { of } = this;
    const [what, ...how] = of.first_lines;
    document.title = `dbtime: ${shown(what ?? "")}`;
    const trust = make("details", { id: "trust" }, make("summary", {}, trustLine(of) || "How far to trust it"));
    trust.append(make("ul", {}, ...of.quality.slice(1).map((line) => make("li", {}, shown(line)))));
    into.replaceChildren(
      make("header", {}, make("h1", {}, shown(what ?? "")), ...how.map((line) => make("p", {}, shown(line)))),
      make("div", { class: "top" }, this.chips, this.said, trust),
      section("ledger", "Where did the time go?", this.summary, this.sentences, make("div", { class: "side" }, this.ledgerView.element, this.database)),
      section("when", "When was it?", make("p", { class: "note" }, of.are_times ? "Average active sessions. " : "Per second. ", hint("Drag to select a time, click to select what.")), this.by.element, this.timelineView.element),
      section("waited", "Who was waited for?", this.causesNote, this.causesView.element, this.blockersTitle, this.blockersNote, this.blockers.element),
      section("code", "In which code?", make("div", { class: "tools" }, this.searchBox.element, this.mode.element, this.levels.element, this.first.element, this.direction.element, this.wholeStacks.element), this.stacksNote, this.flameView.element),
      section("sql", "Which SQL?", this.sqlNote, this.statements.element),
      section("who", "Who was it?", this.sessionsNote, this.sessions.element),
      section("functions", "Which functions?", this.functions.element),
      section("modules", "Whose code?", this.modulesNote, this.modules.element),
      section("latency", "How long did single events take?", this.latenciesView.element),
      make("footer", {}, `Written by dbtime ${of.dbtime}. This page neither loads nor sends anything over a network. ${this.bounds()}`),
    );
    this.drawTop();
    await shownOnce();
    performance.mark("first picture");
    this.parts = this.allParts();
    await this.draw();
  }

  /** All but what happened and when. */
  private allParts(): Parts {
    const chosenNow = () => this.chosenNow();
    const part = (id: string, draw: () => void, question: () => string | null = chosenNow) => ({ element: document.getElementById(id)!, draw, question });
    return new Parts([
      part("waited", () => this.drawCauses()),
      // It handles zooming itself.
      part("code", () => this.drawFlame(), () => null),
      part("sql", () => this.drawStatements()),
      part("who", () => this.drawSessions()),
      part("functions", () => this.functions.update(this.byFunction.get(this.chosenNow(), () => this.functionTimes.times(this.of.stacks, this.chosenStacks())))),
      part("modules", () => this.modules.update(this.byModule.get(this.chosenNow(), () => this.moduleTimes.times(this.of.stacks, this.chosenStacks())))),
      part("latency", () => this.drawLatencies(), () => JSON.stringify([this.chosenNow(), this.view.latency])),
    ]);
  }

  /** Whether nothing is left to be drawn. */
  get isDrawn(): boolean {
    return this.parts?.areDrawn ?? false;
  }

  /** What the page had to leave out. */
  private bounds(): string {
    const { of } = this;
    const widths = [`for stacks ${counted(of.stacks.width_s, "second")}`];
    if (of.causes.rows > 0) widths.push(`for who was waited for ${counted(of.causes.width_s, "second")}`);
    if (of.locks.rows > 0) widths.push(`for locks ${counted(of.locks.width_s, "second")}`);
    if (of.latencies.rows > 0) widths.push(`for single events ${counted(of.latencies.width_s, "second")}`);
    const parts = [`Its time resolution is ${counted(of.times.width_s, "second")}, ${widths.join(", ")}.`];
    if (of.alike.length > 0) parts.push("Its stacks are not kept by session, but by kind of session, user, database and application.");
    if (of.left_out_ns > 0) parts.push(`The stacks of ${amount(of, of.left_out_ns)} of DB time were left out.`);
    return parts.join(" ");
  }

  private follow(): void {
    this.address.forget();
    const next = read(this.of, location.hash);
    if (written(this.of, next) === written(this.of, this.view)) return;
    this.view = next;
    void this.draw();
  }

  /** Goes to a view; back leads to the one before. */
  private go(view: View): void {
    this.address.settle();
    this.view = view;
    this.address.push();
    keepingFocus(() => void this.draw());
  }

  /** Another choice: its flame graph begins without a zoom. */
  private choose(filter: Filter): void {
    this.go({ ...this.view, filter, zoom: null });
  }

  private zoomed(zoom: Zoom | null, isQuick: boolean): void {
    if (!isQuick) this.address.settle();
    this.view = { ...this.view, zoom };
    if (isQuick) this.address.pushSoon();
    else this.address.push();
  }

  private sorted(table: TableName, order: Order | null): void {
    const orders = new Map(this.view.orders);
    if (order) orders.set(table, order);
    else orders.delete(table);
    this.address.settle();
    this.view = { ...this.view, orders };
    this.address.push();
    this.orderTables();
  }

  private orderTables(): void {
    const { orders } = this.view;
    this.blockers.sortBy(orders.get("waited"));
    this.statements.sortBy(orders.get("sql"));
    this.sessions.sortBy(orders.get("who"));
    this.functions.sortBy(orders.get("functions"));
    this.modules.sortBy(orders.get("modules"));
    this.causesView.sortBy(orders.get("causes"));
    this.latenciesView.sortBy(orders.get("latency"));
  }

  private toggle(words: [Dimension, string][]): void {
    let filter = this.view.filter;
    // Of several words, those already chosen stay, unless all are.
    const isThere = ([dimension, word]: [Dimension, string]) => filter.words.get(dimension)?.includes(word) ?? false;
    const changed = words.every(isThere) ? words : words.filter((word) => !isThere(word));
    for (const [dimension, word] of changed) filter = toggled(filter, dimension, word);
    this.choose(filter);
  }

  private chooseTime(range: [number, number] | null): void {
    const [from, to] = range ?? [null, null];
    this.choose({ ...this.view.filter, from, to });
  }

  /** The filter, extended to whole windows of a table. */
  private inWindows(filter: Filter, table: { width_s: number }): Filter {
    const { width_s } = table;
    return {
      ...filter,
      from: filter.from === null ? null : Math.floor(filter.from / width_s) * width_s,
      to: filter.to === null ? null : Math.ceil(filter.to / width_s) * width_s,
    };
  }

  /** Draws what differs from what is drawn; resolves when that is done. */
  private async draw(): Promise<void> {
    this.drawTop();
    this.orderTables();
    await this.parts?.draw();
  }

  /** The selection as a question for [`Kept`]. */
  private chosenNow(): string {
    const { from, to, words } = this.view.filter;
    return JSON.stringify([from, to, ...words]);
  }

  private drawTop(): void {
    const { of, view } = this;
    const { filter } = view;
    this.filtered.get(this.chosenNow(), () => this.drawFiltered());
    this.chipped.get(JSON.stringify([this.chosenNow(), view.latency.us]), () => this.drawChips());
    this.by.set(view.by);
    const { from, to } = this.inWindows(filter, tableOf(of, filter));
    const period = from === null && to === null ? null : ([from ?? of.from_us / 1e6, to ?? of.to_us / 1e6] as [number, number]);
    const question = JSON.stringify([view.by, ...filter.words]);
    this.timelineView.draw(this.line.get(question, () => timeline(of, filter, view.by)), period);
  }

  /** Draws what depends only on the selection. */
  private drawFiltered(): void {
    const { of, view } = this;
    const table = tableOf(of, view.filter);
    const filter = this.inWindows(view.filter, table);
    const sums = ledger(of, table, this.chosenCells());
    this.isEmptyByFilter = isFiltered(view.filter);
    this.whole = { dbTime: sums.sums[DB_TIME]!, elapsed: elapsedNs(of, filter) };
    this.drawSummary(sums, filter);
    this.ledgerView.draw(sums);
    drawDatabaseView(of, sums, this.database, (words) => this.choose(only(this.view.filter, words)));
  }

  /** For each cell 1 if it is chosen. */
  private chosenCells(): Uint8Array {
    const { of, view } = this;
    const table = tableOf(of, view.filter);
    return this.takes.get(this.chosenNow(), () => chosen(of, table, this.inWindows(view.filter, table)));
  }

  /** The same for cells with stacks. */
  private chosenStacks(): Uint8Array {
    const { of, view } = this;
    return this.takesOfStacks.get(this.chosenNow(), () => chosen(of, of.stacks, this.inWindows(view.filter, of.stacks)));
  }

  private drawStatements(): void {
    const { of, view } = this;
    this.statements.update(of.no_statements === null ? statementTimes(of, tableOf(of, view.filter), this.chosenCells()) : []);
    this.sqlNote.textContent = of.no_statements ?? "";
    this.sqlNote.hidden = of.no_statements === null;
    this.statements.element.hidden = of.no_statements !== null;
  }

  private drawSessions(): void {
    const { of, view } = this;
    const table = tableOf(of, view.filter);
    const isBySession = table.leaf === null || of.alike.length === 0;
    this.sessionsNote.hidden = isBySession;
    this.sessions.element.hidden = !isBySession;
    this.sessions.update(isBySession ? sessionTimes(of, table, this.chosenCells()) : []);
  }

  private drawLatencies(): void {
    const { of, view } = this;
    const ofEvents = this.inWindows(view.filter, of.latencies);
    this.latenciesView.draw(view.latency, ofEvents, elapsedNs(of, ofEvents), this.otherTime(of.latencies, "Latencies are kept", "they are those"));
  }

  private drawCauses(): void {
    const { of, view } = this;
    const areKnown = of.no_causes === null && notFollowed(view.filter).length === 0;
    const find = () => (this.chains ??= new Chains(of)).causes(view.filter);
    const found = areKnown ? this.causes.get(this.chosenNow(), find) : null;
    const isDrawn = this.causesView.draw(found, view.filter);
    const blockers = isDrawn && found ? found.blockers : [];
    for (const part of [this.blockersTitle, this.blockersNote, this.blockers.element]) part.hidden = blockers.length === 0;
    this.blockers.update(blockers);
    this.causesNote.textContent = isDrawn ? this.otherTime(of.causes, "Causes are kept", "they are those") : "";
    this.causesNote.hidden = this.causesNote.textContent === "";
  }

  /** What to say if the windows of a table are longer than the chosen time; nothing if they are not. */
  private otherTime(table: { width_s: number }, areKept: string, areThose: string): string {
    const { of, view } = this;
    const rounded = this.inWindows(view.filter, table);
    if (rounded.from === view.filter.from && rounded.to === view.filter.to) return "";
    const moment = (second: number | null, usual_us: number) => clockTime(of, second ?? usual_us / 1e6);
    return `${areKept} by windows of ${table.width_s} s: ${areThose} of ${moment(rounded.from, of.from_us)} to ${moment(rounded.to, of.to_us)}.`;
  }

  private drawFlame(): void {
    const { of, view } = this;
    this.searchBox.set(view.search);
    this.mode.set(view.mode);
    this.levels.set(view.levels);
    this.first.set(view.first);
    this.wholeStacks.set(view.areWhole);
    this.direction.set(view.icicle ? "top" : "bottom");
    const notes = [this.otherTime(of.stacks, "Stacks are kept", "flame graph, functions and modules are those")];
    if (isFinerThanStacks(of, view.filter)) {
      notes.push("Stacks are kept for all sessions of the same kind, user, database and application: flame graph, functions and modules are those of all sessions like the selected ones.");
    }
    this.stacksNote.textContent = notes.join(" ").trim();
    this.stacksNote.hidden = this.stacksNote.textContent === "";
    const { mode, levels, first, areWhole } = view;
    const shape = { mode, levels: levelsOf(levels), first, areWhole };
    const flame = this.flame.get(JSON.stringify([this.chosenNow(), shape]), () => this.flames.draw(shape, this.chosenStacks()));
    this.flameView.draw(flame, view.icicle, view.zoom, view.search);
  }

  private drawChips(): void {
    const { filter, latency } = this.view;
    const chips: HTMLElement[] = [];
    const words: string[] = [];
    const chip = (what: string, value: string, remove: () => void) => {
      const short = value.length > LONGEST_CHIP ? `${value.slice(0, LONGEST_CHIP - 1)}…` : value;
      const text = make("span", {}, make("b", {}, what), " ", short);
      words.push(`${what} ${short}`);
      chips.push(button(text, { class: "chip", "aria-label": `Remove ${what} ${value}`, title: "Remove" }, remove));
    };
    if (filter.from !== null || filter.to !== null) {
      const from = filter.from === null ? "the start" : clockTime(this.of, filter.from);
      const to = filter.to === null ? "the end" : clockTime(this.of, filter.to);
      chip("time", `${from} to ${to}`, () => this.chooseTime(null));
    }
    for (const dimension of DIMENSIONS) {
      for (const word of filter.words.get(dimension) ?? []) {
        chip(DIMENSION_NAMES[dimension], this.valueOf(dimension, word), () => this.toggle([[dimension, word]]));
      }
    }
    const ofAllLengths = { ...latency, us: null };
    if (latency.us) chip("latency", rangeWords(latency.us), () => this.go({ ...this.view, latency: ofAllLengths }));
    this.said.textContent = words.length > 0 ? `Selected: ${words.join("; ")}.` : "Everything is shown.";
    if (chips.length > 1) chips.push(button("Show all", { class: "all" }, () => this.go({ ...this.view, filter: noFilter(), zoom: null, latency: ofAllLengths })));
    if (chips.length === 0) chips.push(hint("Everything is shown. Click a cell of the ledger, a band of the timeline, a frame or a row to select it; / searches the flame graph."));
    this.chips.replaceChildren(...chips);
  }

  private valueOf(dimension: Dimension, word: string): string {
    if (dimension === "query") {
      const at = this.of.statements.findIndex((statement) => statement.query === word);
      if (at >= 0) return statementLabel(this.of, at);
    }
    return word === "" ? "[none]" : oneLine(word);
  }

  /** The wait class with the most DB time, for the summary. */
  private mainClass(sums: Ledger, dbTime: number): string {
    const classes = new Map<string, number>();
    for (const row of sums.rows) {
      if (row.section !== DB_TIME) continue;
      const { kind, class_by_cpu: name, label } = this.of.waits[row.wait]!;
      const word = kind === "unknown" ? label : name;
      classes.set(word, (classes.get(word) ?? 0) + row.total);
    }
    const [first] = [...classes].toSorted(([, one], [, other]) => other - one);
    if (!first) return "";
    const [word, time] = first;
    return `. ${2 * time > dbTime ? "Most of it" : "The largest part"}: ${oneLine(word)}, ${percent(time, dbTime)} %`;
  }

  private drawSummary(sums: Ledger, filter: Filter): void {
    const { of } = this;
    const dbTime = sums.sums[DB_TIME]!;
    const { elapsed } = this.whole;
    this.summary.replaceChildren();
    if (dbTime === 0) {
      const why = this.isEmptyByFilter
        ? "There is no DB time in the selection: clear a filter to see more."
        : "There is no DB time in this recording: its sessions waited for work.";
      this.summary.append(make("span", { class: "empty" }, why));
    } else {
      const sessions = of.are_times && elapsed > 0 ? ` in ${seconds(elapsed)} s: ${(dbTime / elapsed).toFixed(2)} average active sessions` : "";
      const main = this.mainClass(sums, dbTime);
      this.summary.append(make("strong", {}, `DB time ${amount(of, dbTime)}`), `${sessions}${main}.`);
      const trust = [sums.mix === "mixed" ? "partly exact, partly sampled" : (sums.mix ?? ""), `${sums.samples.toLocaleString("en")} samples`];
      if (sums.pooled > 0) trust.push(`${percent(sums.pooled, dbTime)} % pooled: short sessions, by the samples of similar ones`);
      this.summary.append(make("small", {}, ` (${trust.join("; ")})`));
    }
    const view = databaseView(of, sums);
    const own =
      of.one_sided || view.dbTime === 0
        ? []
        : [`CPU and waits add up to ${(((view.cpu + view.wait) / view.dbTime) * 100).toFixed(0)} % of DB time; ${amount(of, view.doubleCounted)} are counted twice.`];
    const sentences = isFiltered(filter) ? own : of.sentences;
    this.sentences.replaceChildren(...sentences.map((sentence) => make("p", {}, shown(sentence))));
  }

  private whyNoStacks(): string {
    if (this.whole.dbTime === 0) return this.isEmptyByFilter ? "There is no DB time in the selection." : "There is no DB time in this recording.";
    return this.view.mode === "all" ? "No time to draw." : `Nothing in the selection was ${this.view.mode === "on-cpu" ? "on" : "off"} a CPU.`;
  }

  /** For measurements: how long drawing the flame graph takes, and for how many frames. */
  measure(): { frames: number; ms: number } {
    return { frames: this.flameView.count, ms: this.flameView.measure() };
  }
}
