// The page of a dive: which calls, how long, and what they did in the kernel, as a tree and by function.

import { Address } from "./address.ts";
import { CALLS, MAX, MEAN, MIN, OFF, OWN, P99, shareColumn, TOTAL } from "./dive_columns.ts";
import type { Dive } from "./dive_data.ts";
import { callTable, functionTable, intervalTable, layerTable, sampledTable } from "./dive_tables.ts";
import { DiveTree } from "./dive_tree.ts";
import { DiveTreeView } from "./dive_tree_view.ts";
import { type DiveTable, type DiveView, LEVELS, type Levels, read, turned, written } from "./dive_view.ts";
import { button, choice, hint, make, section } from "./dom.ts";
import type { Order } from "./ranked_table.ts";
import { SearchBox } from "./search_box.ts";
import { counted, duration, milliseconds, oneLine, percent, shown } from "./words.ts";

const LEVEL_NAMES: Record<Levels, string> = { busy: "where 10 % of the time is", "1": "1 level", "2": "2 levels", "3": "3 levels", "5": "5 levels", "8": "8 levels", all: "all of it" };
/** Maximum length of a name in a sentence. */
const LONGEST = 200;

export class DivePage {
  private readonly tree: DiveTree;
  private view: DiveView;
  private readonly address = new Address(() => written(this.view));
  private readonly treeView: DiveTreeView;
  private readonly search: SearchBox;
  private readonly levels;
  private readonly functions;
  private readonly sampled;
  private readonly intervals;
  private readonly chips = make("div", { class: "chips" });
  private readonly status = make("p", { class: "status", role: "status" });
  /** What is highlighted, and what has to be open for that; null without a search. */
  private found: { nodes: Uint8Array; way: Uint8Array } | null = null;

  constructor(private readonly of: Dive) {
    const tree = new DiveTree(of.paths, of.no_calls, of.calls_ns);
    this.tree = tree;
    this.view = read(location.hash, tree.count);
    const sorted = (table: DiveTable) => (order: Order | null) => this.sorted(table, order);
    const share = shareColumn(of.calls_ns, (node) => tree.isOfCall[node] === 1);
    this.treeView = new DiveTreeView(of, tree, [CALLS, TOTAL, share, OWN, OFF, MIN, MEAN, P99, MAX], {
      turn: (nodes, open, isQuick) => this.turn(nodes, open, isQuick),
      sort: sorted("tree"),
    });
    this.search = new SearchBox((text) => {
      this.view = { ...this.view, search: text };
      this.find(true);
      this.address.replace();
      this.draw();
      this.treeView.showFound();
    });
    this.search.element.placeholder = "Search functions ( / )";
    this.search.element.setAttribute("aria-label", "Search functions");
    this.search.element.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.treeView.nextFound();
    });
    this.levels = choice("open", LEVELS, (levels) => LEVEL_NAMES[levels], (levels) => this.go({ ...this.view, levels, opened: new Set(), closed: new Set() }));
    const isChosen = (name: string) => this.view.function === name;
    const choose = (name: string) => this.choose(isChosen(name) ? null : name);
    this.functions = functionTable(of, isChosen, choose, sorted("functions"));
    this.sampled = of.samples ? sampledTable(of.samples.own, of.samples.functions, isChosen, choose, sorted("sampled")) : null;
    this.intervals = of.samples ? intervalTable(of.samples.own, of.samples.intervals, sorted("intervals")) : null;
    addEventListener("hashchange", () => this.follow());
    addEventListener("popstate", () => this.follow());
  }

  show(into: HTMLElement): void {
    const { of } = this;
    const [first, ...others] = of.calls.map((call) => oneLine(call.function).slice(0, LONGEST));
    const what = first === undefined ? "a trace of the kernel" : `${first}${others.length > 0 ? ` and ${counted(others.length, "other call")}` : ""}`;
    document.title = `dbtime: inside ${what}`;
    const [source = "", ...how] = of.source_lines;
    const [exact = "", ...limits] = of.exact_lines;
    const trust = make("details", { id: "trust" }, make("summary", {}, shown(exact)));
    const lines = ["Durations include the tracer's overhead at each function: many short functions look more expensive than they are.", ...how, ...of.problems.map((problem) => `Not read: ${problem}`)];
    trust.append(make("ul", {}, ...lines.map((line) => make("li", {}, shown(line)))));
    into.replaceChildren(
      make("header", {}, make("h1", {}, `Inside ${what}`), make("p", {}, shown(source))),
      make("div", { class: "top" }, this.chips, trust),
      section("calls", "Which calls, and how long?", ...this.calls()),
      section("tree", "What did they do?", this.about(), ...limits.map((line) => make("p", { class: "note" }, shown(line))), make("div", { class: "tools" }, this.search.element, this.levels.element), this.status, this.treeView.element),
      section("functions", "Which functions?", make("p", { class: "note" }, "Whoever called them, in interrupts too; recursion counts once.", hint(" Click one to highlight it in the tree.")), this.functions.element),
      ...(of.samples ? [section("samples", "What was found in between?", ...this.samples(of.samples.line, of.samples.own))] : []),
      make("footer", {}, `Written by dbtime ${of.dbtime}. This page neither loads nor sends anything over a network. ${this.leftOut()}`),
    );
    this.find(false);
    this.draw();
    this.treeView.showFound();
  }

  /** For measurements: how long drawing the tree takes, and for how many rows. */
  measure(): { rows: number; ms: number } {
    return { rows: this.treeView.count, ms: this.treeView.measure() };
  }

  private calls(): Node[] {
    const { of } = this;
    const call = of.calls[0];
    if (!call) return [make("p", { class: "empty" }, "No call was traced from start to end: what is below hit incomplete calls, or ran between them.")];
    const quantiles = call.p50_ns === null || call.p99_ns === null ? "" : `: half of them up to ${duration(call.p50_ns)}, 99 % up to ${duration(call.p99_ns)}, the longest ${duration(call.max_ns)}`;
    const name = oneLine(call.function).slice(0, LONGEST);
    const summary = call.count === 0 ? `${milliseconds(call.total_ns)} ms below ${name}` : `${counted(call.count, "call")} of ${name} took ${milliseconds(call.total_ns)} ms${quantiles}`;
    const nodes: Node[] = [make("p", { class: "summary" }, make("strong", {}, `${summary}.`)), make("p", { class: "note" }, "Interrupts and preemption excluded."), callTable(of)];
    nodes.push(...of.foreign_lines.map((line) => make("p", { class: "note" }, shown(line))));
    if (of.layers.length > 0) nodes.push(make("h3", {}, "Where their time went"), layerTable(of));
    return nodes;
  }

  private about(): HTMLElement {
    return make("p", { class: "note" }, "All calls merged. Total: with all that was called; self: on a CPU in the function itself.", hint(" Arrow keys move through the tree, open and close nodes; * opens a whole level."));
  }

  private samples(line: string, own: number): Node[] {
    const about = make("p", { class: "note" }, `${shown(line)} Their call paths: dbtime report --tree.`);
    return own > 0 && this.sampled && this.intervals ? [about, this.sampled.element, make("h3", {}, "Between which tracepoints"), this.intervals.element] : [make("p", { class: "empty" }, shown(line))];
  }

  private leftOut(): string {
    const { left_out_paths, left_out_functions, left_out_others } = this.of;
    const parts = [counted(left_out_paths, "call path"), counted(left_out_functions, "function"), `${counted(left_out_others, "row")} of other tables`];
    const found = parts.filter((part) => !part.startsWith("0 "));
    return found.length === 0 ? "" : `What took least was left out: ${found.join(", ")}.`;
  }

  private follow(): void {
    this.address.forget();
    const next = read(location.hash, this.tree.count);
    if (written(next) === written(this.view)) return;
    const isOther = next.search !== this.view.search || next.function !== this.view.function;
    this.view = next;
    this.find(false);
    this.draw();
    if (isOther) this.treeView.showFound();
  }

  private go(view: DiveView, isQuick = false): void {
    if (!isQuick) this.address.settle();
    this.view = view;
    if (isQuick) this.address.pushSoon();
    else this.address.push();
    this.draw();
  }

  private sorted(table: DiveTable, order: Order | null): void {
    const orders = new Map(this.view.orders);
    if (order) orders.set(table, order);
    else orders.delete(table);
    this.go({ ...this.view, orders });
  }

  private turn(nodes: number[], open: boolean, isQuick: boolean): void {
    this.go(turned(this.view, nodes, open, (node) => this.isOpenAnyway(node)), isQuick);
  }

  /** Highlights a function. */
  private choose(name: string | null): void {
    this.address.settle();
    this.view = { ...this.view, function: name };
    this.find(true);
    this.address.push();
    this.draw();
    this.treeView.showFound();
  }

  /** Finds what to highlight; closed rows on the way to it are opened again. */
  private find(opensWay: boolean): void {
    const { of, tree, view } = this;
    if (view.search === "" && view.function === null) {
      this.found = null;
      return;
    }
    const wanted = view.search.toLowerCase();
    const nodes = tree.nodesOf((name) => of.names[name] === view.function || (wanted !== "" && of.names[name]!.toLowerCase().includes(wanted)));
    const way = tree.wayTo(nodes);
    this.found = { nodes, way };
    if (opensWay) this.view = { ...view, closed: new Set([...view.closed].filter((node) => way[node] === 0)) };
  }

  private isOpenAnyway(node: number): boolean {
    const { levels } = this.view;
    const isOpen = levels === "busy" ? this.tree.busy[node] === 1 : levels === "all" || this.of.paths.depth[node]! + 1 < Number(levels);
    return isOpen || this.found?.way[node] === 1;
  }

  private isOpen(node: number): boolean {
    return !this.view.closed.has(node) && (this.view.opened.has(node) || this.isOpenAnyway(node));
  }

  private draw(): void {
    const { view } = this;
    this.search.set(view.search);
    this.levels.set(view.levels);
    this.drawFound();
    this.treeView.draw((node) => this.isOpen(node), this.found?.nodes ?? null, view.orders.get("tree"));
    this.functions.sortBy(view.orders.get("functions"));
    this.functions.redraw();
    this.sampled?.sortBy(view.orders.get("sampled"));
    this.sampled?.redraw();
    this.intervals?.sortBy(view.orders.get("intervals"));
  }

  /** Says what is highlighted, and how much that is. */
  private drawFound(): void {
    const { of, found, view } = this;
    this.chips.replaceChildren();
    this.status.textContent = "";
    if (view.function !== null) {
      this.chips.append(button(oneLine(view.function).slice(0, LONGEST), { class: "chip", title: "Highlighted in the tree; click to undo" }, () => this.choose(null)));
    }
    if (!found) return;
    const { count, ns } = this.tree.sum(found.nodes);
    const what = count === 0 ? "No call path has such a function" : `${counted(count, "call path")} highlighted: ${milliseconds(ns)} ms${of.calls_ns > 0 ? `, ${percent(ns, of.calls_ns)} % of the time of the calls` : ""}`;
    this.status.textContent = count === 0 && of.left_out_paths > 0 ? `${what} among those on this page.` : `${what}.`;
    if (view.function !== null) this.chips.append(make("small", {}, this.status.textContent));
  }
}
