// The page of two dives: which functions only one of them calls, and where a call takes longer.

import { Address } from "./address.ts";
import { type DiveChange, type DiveDifference, type DiveList, functionOf } from "./dive_difference.ts";
import { type DiveDifferenceView, read, written } from "./dive_difference_view.ts";
import { button, hint, make, section } from "./dom.ts";
import { type Column, type Order, RankedTable } from "./ranked_table.ts";
import { SearchBox } from "./search_box.ts";
import { duration, oneLine, shown } from "./words.ts";

const TITLES: Record<DiveList, string> = {
  only_good: "Functions in GOOD only",
  only_bad: "Functions in BAD only",
  functions: "Functions that both call",
  paths: "Call paths",
};
/** Maximum length of a name on its chip. */
const LONGEST = 200;

export class DiveDifferencePage {
  private view: DiveDifferenceView = read(location.hash);
  private readonly address = new Address(() => written(this.view));
  private readonly search: SearchBox;
  private readonly tables: { list: DiveList; table: RankedTable<DiveChange>; empty: HTMLElement }[];
  private readonly chips = make("div", { class: "chips" });

  constructor(private readonly of: DiveDifference) {
    this.search = new SearchBox((search) => {
      this.view = { ...this.view, search };
      this.address.replace();
      this.draw();
    });
    this.search.element.placeholder = "Search functions ( / )";
    this.search.element.setAttribute("aria-label", "Search functions");
    this.tables = (["only_bad", "only_good", "functions", "paths"] as const).map((list) => ({ list, table: this.tableOf(list), empty: make("p", { class: "empty" }) }));
    addEventListener("hashchange", () => this.follow());
    addEventListener("popstate", () => this.follow());
  }

  show(into: HTMLElement): void {
    const { dbtime, diff, left_out, lines } = this.of;
    document.title = "dbtime: inside GOOD against BAD";
    const [answer = "", good = "", bad = "", ...how] = lines;
    const trust = make("p", { id: "trust", class: "note" }, how.map(shown).join(" "));
    const problems = diff.problems.map((problem) => make("p", { class: "note" }, `Not read: ${shown(problem)}`));
    const tablesOf = (...lists: DiveList[]) => this.tables.filter(({ list }) => lists.includes(list)).flatMap(({ list, table, empty }) => [make("h3", {}, TITLES[list]), table.element, empty]);
    into.replaceChildren(
      make("header", {}, make("h1", {}, "What a call does in BAD that it did not do in GOOD"), make("p", {}, shown(good)), make("p", {}, shown(bad))),
      make("div", { class: "top" }, this.chips, trust),
      section("answer", "The answer", make("p", { class: "summary" }, make("strong", {}, shown(answer))), ...problems, make("div", { class: "tools" }, this.search.element), make("p", {}, hint("Click a row to see where its function is called."))),
      section("only", "Which functions does only one of them call?", ...tablesOf("only_bad", "only_good")),
      section("both", "Where does a call take longer?", make("p", { class: "note" }, "By the difference in own time, on or off a CPU."), ...tablesOf("functions", "paths")),
      make("footer", {}, `Written by dbtime ${dbtime}. This page neither loads nor sends anything over a network. ${left_out > 0 ? `${left_out.toLocaleString("en")} rows with smaller differences were left out.` : ""}`),
    );
    this.draw();
  }

  private tableOf(list: DiveList): RankedTable<DiveChange> {
    const columns = list === "only_good" ? onlyColumns(0) : list === "only_bad" ? onlyColumns(1) : bothColumns(list);
    const numbers = new Map(this.of.diff[list].map((change, at) => [change, String(at)]));
    return new RankedTable<DiveChange>(
      TITLES[list],
      columns,
      list.startsWith("only") ? "own" : "more",
      (change) => numbers.get(change)!,
      (change) => functionOf(change) === this.view.function,
      (change) => this.choose(functionOf(change) === this.view.function ? null : functionOf(change)),
      (order) => this.sorted(list, order),
    );
  }

  private follow(): void {
    this.address.forget();
    const next = read(location.hash);
    if (written(next) === written(this.view)) return;
    this.view = next;
    this.draw();
  }

  private choose(name: string | null): void {
    this.go({ ...this.view, function: name });
  }

  private sorted(list: DiveList, order: Order | null): void {
    const orders = new Map(this.view.orders);
    if (order) orders.set(list, order);
    else orders.delete(list);
    this.go({ ...this.view, orders });
  }

  private go(view: DiveDifferenceView): void {
    this.view = view;
    this.address.push();
    this.draw();
  }

  private draw(): void {
    const { of, view } = this;
    this.search.set(view.search);
    this.chips.replaceChildren();
    if (view.function !== null) {
      const name = oneLine(view.function).slice(0, LONGEST);
      this.chips.append(button(name, { class: "chip", title: "Only rows with this function; click to show all" }, () => this.choose(null)));
    }
    const wanted = view.search.toLowerCase();
    const isShown = ({ path }: DiveChange) => (view.function === null || path.includes(view.function)) && (wanted === "" || path.some((name) => name.toLowerCase().includes(wanted)));
    for (const { list, table, empty } of this.tables) {
      const all = of.diff[list];
      table.sortBy(view.orders.get(list));
      table.update(all.filter(isShown));
      empty.textContent = all.length === 0 ? "None." : "None in the selection.";
      empty.hidden = all.some(isShown);
    }
  }
}

function nameColumn(list: string): Column<DiveChange> {
  return { word: "function", name: list === "paths" ? "call path" : "function", text: ({ path }) => oneLine(path.join(" > ")), isWide: true };
}

function onlyColumns(side: 0 | 1): Column<DiveChange>[] {
  return [
    nameColumn("only"),
    { word: "calls", name: "calls", number: ({ calls }) => calls[side], text: ({ calls }) => count(calls[side]) },
    { word: "own", name: "own", number: ({ own_ns }) => own_ns[side], text: ({ own_ns }) => time(own_ns[side]) },
    { word: "total", name: "with what it called", number: ({ total_ns }) => total_ns[side], text: ({ total_ns }) => time(total_ns[side]) },
  ];
}

function bothColumns(list: DiveList): Column<DiveChange>[] {
  return [
    nameColumn(list),
    ...pair("calls", "calls GOOD", ({ calls }) => calls, count),
    ...pair("own", "own GOOD", ({ own_ns }) => own_ns, time),
    { word: "more", name: "more", number: (change) => Math.abs(more(change)), text: (change) => signed(more(change)), tone: (change) => Math.sign(Math.round(more(change))) },
    ...pair("total", "in all GOOD", ({ total_ns }) => total_ns, time),
  ];
}

/** A number of GOOD, and that of BAD. */
function pair(word: string, name: string, of: (change: DiveChange) => [number, number], write: (value: number) => string): Column<DiveChange>[] {
  const column = (side: 0 | 1): Column<DiveChange> => ({ word: `${word}_${["good", "bad"][side]}`, name: [name, "BAD"][side]!, number: (change) => of(change)[side], text: (change) => write(of(change)[side]) });
  return [column(0), column(1)];
}

function more({ own_ns: [good, bad] }: DiveChange): number {
  return bad - good;
}

function time(ns: number): string {
  return ns === 0 ? "–" : duration(Math.round(ns));
}

function signed(ns: number): string {
  return `${ns < 0 ? "−" : "+"}${duration(Math.round(Math.abs(ns)))}`;
}

function count(calls: number): string {
  return calls === 0 ? "–" : Number.isInteger(calls) ? String(calls) : calls.toFixed(2);
}
