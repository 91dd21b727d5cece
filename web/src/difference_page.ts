// The page of two recordings: what changed, where, and how sure that is.

import { Address } from "./address.ts";
import { amountOf, type Difference, PLACES, type PlaceKind, SIDES, signedOf } from "./difference.ts";
import { DifferenceLook } from "./difference_look.ts";
import { counterTable, latencyChangeTable, placeTable, statementChangeTable, statementWord } from "./difference_tables.ts";
import { type DifferenceTable, type DifferenceView, read, written } from "./difference_view.ts";
import { choice, hint, make, section, Tip, toggle } from "./dom.ts";
import { type Flame, Flames } from "./flame.ts";
import { FlameView } from "./flame_view.ts";
import { Kept } from "./kept.ts";
import type { Order } from "./ranked_table.ts";
import { SearchBox } from "./search_box.ts";
import type { Zoom } from "./view.ts";
import { oneLine, shown } from "./words.ts";

const TITLES: Record<PlaceKind, string> = { cells: "Wait events and states", waits: "Wait events", functions: "Functions, by the difference in self time", paths: "Call paths, down to where the difference spreads out", modules: "Modules" };

export class DifferencePage {
  private view: DifferenceView = read(location.hash);
  private readonly address = new Address(() => written(this.view));
  private readonly search: SearchBox;
  private readonly flameView: FlameView;
  private readonly widths;
  private readonly direction;
  private readonly wholeStacks;
  private readonly flames: Flames;
  private readonly takes: Uint8Array;
  private readonly flame = new Kept<Flame>(1);
  private readonly statements;
  private readonly latencies;
  private readonly counters;
  private readonly places;
  private readonly statementCells = make("div", { class: "cells" });

  constructor(private readonly of: Difference) {
    this.flames = new Flames(of.frames, { ...of.stacks, ns: of.sides.bad });
    this.takes = new Uint8Array(of.stacks.rows).fill(1);
    const tip = new Tip();
    const sorted = (table: DifferenceTable) => (order: Order | null) => this.sorted(table, order);
    this.flameView = new FlameView(of.frames, tip, null, () => `There is no time in ${this.view.widths.toUpperCase()}.`, (zoom, isQuick) => this.zoomed(zoom, isQuick), new DifferenceLook(of, () => this.view.widths));
    this.search = new SearchBox((text) => {
      this.view = { ...this.view, search: text };
      this.address.replace();
      this.flameView.find(text);
    });
    const change = (part: Partial<DifferenceView>) => this.go({ ...this.view, ...part });
    this.widths = choice("widths", SIDES, (side) => `of ${side.toUpperCase()}`, (widths) => change({ widths, zoom: null }));
    this.direction = choice("root", ["top", "bottom"] as const, (at) => `at the ${at}`, (at) => change({ icicle: at === "top" }));
    this.wholeStacks = toggle("whole stacks", (areWhole) => change({ areWhole, zoom: null }));
    this.wholeStacks.element.hidden = !this.flames.paths.haveStart;
    this.statements = statementChangeTable(of, (word) => this.view.statement === word, (word) => change({ statement: this.view.statement === word ? null : word }), sorted("statements"));
    this.latencies = latencyChangeTable(of, sorted("latencies"));
    this.counters = counterTable(of, sorted("counters"));
    const find = (frame: string) => change({ search: this.view.search === frame ? "" : frame });
    this.places = PLACES.map((kind) => ({ kind, table: placeTable(of, kind, (frame) => this.view.search === frame, find, sorted(kind)) }));
    addEventListener("hashchange", () => this.follow());
    addEventListener("popstate", () => this.follow());
  }

  show(into: HTMLElement): void {
    const { diff, lines } = this.of;
    document.title = "dbtime: GOOD against BAD";
    const sides = lines.filter((line) => line.startsWith("GOOD: ") || line.startsWith("BAD: "));
    const how = lines.slice(1).filter((line) => line !== diff.whole && !sides.includes(line));
    const answer = [diff.headline, diff.statement].filter((line) => line !== "").map((line) => make("p", {}, shown(line)));
    const trust = make("details", { id: "trust" }, make("summary", {}, shown(how[0] ?? "How they were compared")));
    trust.append(make("ul", {}, ...[...how.slice(1), ...diff.problems.map((problem) => `Not read: ${problem}`)].map((line) => make("li", {}, shown(line)))));
    into.replaceChildren(
      make("header", {}, make("h1", {}, "What changed from GOOD to BAD"), ...sides.map((line) => make("p", {}, shown(line)))),
      make("div", { class: "top" }, trust),
      section("answer", "The answer", make("p", { class: "summary" }, make("strong", {}, shown(diff.conclusion))), ...answer, diff.whole === "" ? "" : make("p", {}, shown(diff.whole))),
      section("ledger", "Where is the difference?", this.total(), ...this.tablesOf("cells", "waits")),
      section("code", "In which code?", this.legend(), make("div", { class: "tools" }, this.search.element, this.widths.element, this.direction.element, this.wholeStacks.element), this.flameView.element),
      section("sql", "Which SQL?", this.whyNoStatements(), this.statements.element, this.statementCells),
      section("functions", "Which functions?", ...this.tablesOf("functions", "paths", "modules")),
      section("latency", "How long did single events take?", make("p", { class: "note" }, "Exact. GOOD → BAD; ~ = the change is noise or small."), this.latencies.element, this.emptyUnless(diff.latencies.length > 0, "One of the recordings has no latencies of single events: 'dbtime record --exact' records them.")),
      section("counters", "What was counted?", make("p", { class: "note" }, `Per ${diff.per}.`), this.counters.element, this.emptyUnless(diff.counters.length > 0, "The recordings have no counter in common.")),
      make("footer", {}, `Written by dbtime ${this.of.dbtime}. This page neither loads nor sends anything over a network. ${this.of.left_out > 0 ? `${this.of.left_out.toLocaleString("en")} smaller differences were left out.` : ""}`),
    );
    this.draw();
  }

  /** For measurements: how long drawing the flame graph takes, and for how many frames. */
  measure(): { frames: number; ms: number } {
    return { frames: this.flameView.count, ms: this.flameView.measure() };
  }

  private total(): HTMLElement {
    const { good, bad, difference, percent } = this.of.diff.db_time;
    const line = make("p", { id: "db-time" }, make("strong", {}, `DB time per ${this.of.diff.per}: ${amountOf(this.of, good)} in GOOD, ${amountOf(this.of, bad)} in BAD`));
    line.append(`, ${signedOf(this.of, difference)} (${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(1)} % of the larger).`, hint(" Click a row to highlight its frames in the flame graph."));
    return line;
  }

  private tablesOf(...kinds: PlaceKind[]): Node[] {
    return this.places
      .filter(({ kind }) => kinds.includes(kind))
      .flatMap(({ kind, table }) => [make("h3", {}, `${TITLES[kind]}, per ${this.of.diff.per}`), table.element, this.emptyUnless(this.of.diff[kind].some(({ difference }) => difference !== 0), "No difference.")]);
  }

  private legend(): HTMLElement {
    return make("p", { class: "note" }, swatch("more-time"), "▲ red: more time in the frame itself in BAD, ", swatch("less-time"), `▼ blue: less, per ${this.of.diff.per}; the stronger, the more. Differences of 0.5 % of DB time or more are marked. The width is the time of one side; each frame states the other.`);
  }

  private whyNoStatements(): HTMLElement {
    const areKnown = this.of.diff.statements_per !== null;
    const line = this.emptyUnless(areKnown, "The SQL is not known: one of the recordings does not say which statements time belongs to.", `Per ${this.of.diff.statements_per}.`);
    if (areKnown) line.append(hint(" Click a row to see where in its ledger."));
    return line;
  }

  private emptyUnless(isThere: boolean, why: string, otherwise = ""): HTMLElement {
    const line = make("p", { class: isThere ? "note" : "empty" }, isThere ? otherwise : why);
    line.hidden = isThere && otherwise === "";
    return line;
  }

  private follow(): void {
    this.address.forget();
    const next = read(location.hash);
    if (written(next) === written(this.view)) return;
    this.view = next;
    this.draw();
  }

  private go(view: DifferenceView): void {
    this.address.settle();
    this.view = view;
    this.address.push();
    this.draw();
  }

  private zoomed(zoom: Zoom | null, isQuick: boolean): void {
    if (!isQuick) this.address.settle();
    this.view = { ...this.view, zoom };
    if (isQuick) this.address.pushSoon();
    else this.address.push();
  }

  private sorted(table: DifferenceTable, order: Order | null): void {
    const orders = new Map(this.view.orders);
    if (order) orders.set(table, order);
    else orders.delete(table);
    this.go({ ...this.view, orders });
  }

  private draw(): void {
    const { of, view } = this;
    this.search.set(view.search);
    this.widths.set(view.widths);
    this.direction.set(view.icicle ? "top" : "bottom");
    this.wholeStacks.set(view.areWhole);
    const other = view.widths === "bad" ? "good" : "bad";
    const shape = { mode: "all", levels: ["wait", "state"], first: "callers", areWhole: view.areWhole } as const;
    const flame = this.flame.get(JSON.stringify([view.widths, shape]), () => this.flames.draw(shape, this.takes, { ns: of.sides[view.widths], other: of.sides[other] }));
    this.flameView.draw(flame, view.icicle, view.zoom, view.search);
    for (const { kind, table } of this.places) {
      table.sortBy(view.orders.get(kind));
      table.redraw();
    }
    this.latencies.sortBy(view.orders.get("latencies"));
    this.counters.sortBy(view.orders.get("counters"));
    this.statements.sortBy(view.orders.get("statements"));
    this.statements.update(of.diff.statements.filter(({ difference }) => difference !== 0));
    this.drawStatement();
  }

  /** Where the difference of the chosen statement is. */
  private drawStatement(): void {
    const { of, view } = this;
    const at = of.diff.statements.findIndex((row) => statementWord(row) === view.statement);
    this.statementCells.replaceChildren();
    if (at < 0) return;
    const head = ["wait event, state", "GOOD", "BAD", "difference"].map((name, n) => make("th", { scope: "col", class: n > 0 ? "number" : "" }, name));
    const rows = of.diff.statements[at]!.cells.map((cell, n) => {
      const tone = cell.difference > 0 ? "worse" : cell.difference < 0 ? "better" : "";
      return make("tr", {}, make("th", { scope: "row" }, oneLine(of.places.of_statements[at]?.[n] ?? "")), numberCell(amountOf(of, cell.good)), numberCell(amountOf(of, cell.bad)), numberCell(signedOf(of, cell.difference), tone));
    });
    this.statementCells.append(make("h3", {}, "The ledger of the selected statement"), make("div", { class: "scroll" }, make("table", {}, make("caption", { class: "unseen" }, "The ledger of the selected statement"), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
  }
}

function swatch(kind: string): HTMLElement {
  return make("i", { class: `swatch ${kind}`, "aria-hidden": "true" });
}

function numberCell(text: string, kind = ""): HTMLElement {
  return make("td", { class: `number ${kind}`.trim() }, text);
}
