// The tree of a dive as a table whose rows open and close: arrow keys move, open and close, as in trees of the desktop.

import type { DiveColumn } from "./dive_columns.ts";
import type { Dive } from "./dive_data.ts";
import type { DiveTree, TreeRow } from "./dive_tree.ts";
import { NO_NODE } from "./paths.ts";
import { button, make, more } from "./dom.ts";
import type { Order } from "./ranked_table.ts";
import { duration, oneLine } from "./words.ts";

/** Rows that are drawn at first, and at most without a click. */
const SHOWN = 400;
const MOST_SHOWN = 5_000;
/** Levels that are shown by indentation. */
const DEEPEST = 30;
/** The column of names, in the address of the page. */
const NAME = "function";
const USUAL = "total";

interface Acts {
  /** `isQuick`: a key is held down. */
  turn: (nodes: number[], open: boolean, isQuick: boolean) => void;
  sort: (order: Order | null) => void;
}

export class DiveTreeView {
  readonly element = make("div", { class: "tree" });
  private readonly box = make("div", { class: "treebox" });
  private readonly head = make("tr");
  private readonly body = make("tbody");
  private readonly more = make("div");
  private rows: TreeRow[] = [];
  private places = new Map<number, number>();
  private isOpen: (node: number) => boolean = () => false;
  private found: Uint8Array | null = null;
  private order: Order | undefined;
  /** The row that Tab goes to. */
  private current = 0;
  private shown = SHOWN;

  constructor(
    private readonly of: Dive,
    private readonly tree: DiveTree,
    private readonly columns: DiveColumn[],
    private readonly acts: Acts,
  ) {
    const table = make("table", { role: "treegrid", "aria-label": "All calls merged", "aria-multiselectable": "true" }, make("thead", {}, this.head), this.body);
    this.box.append(table);
    this.element.append(this.box, this.more);
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    this.body.addEventListener("focusin", (event) => {
      const node = nodeOf(event.target);
      if (node !== null) this.goTo(node, false);
    });
    this.body.addEventListener("click", (event) => {
      const node = nodeOf(event.target);
      if (node === null || getSelection()?.isCollapsed === false) return;
      this.goTo(node, true);
      if (this.tree.hasCallees(node)) this.acts.turn([node], !this.isOpen(node), false);
    });
  }

  /** Draws what is open in this order; matches are highlighted. */
  draw(isOpen: (node: number) => boolean, found: Uint8Array | null, order: Order | undefined): void {
    const { paths, names } = this.of;
    this.isOpen = isOpen;
    this.found = found;
    this.order = order;
    const column = this.columns.find(({ word }) => word === (order?.column ?? USUAL));
    const sign = order?.isReversed ? -1 : 1;
    const name = (node: number) => names[paths.name[node]!]!;
    const byName = (one: number, other: number) => (name(one) < name(other) ? -sign : name(one) > name(other) ? sign : 0);
    const byNumber = (one: number, other: number) => (column ? (column.number(paths, other) - column.number(paths, one)) * sign : 0);
    this.rows = this.tree.rows(isOpen, order?.column === NAME ? byName : byNumber);
    this.places = new Map(this.rows.map(({ node }, at) => [node, at]));
    this.paint();
  }

  /** Draws and says how long it took, in milliseconds. */
  measure(): number {
    const begin = performance.now();
    this.paint();
    return performance.now() - begin;
  }

  get count(): number {
    return Math.min(this.rows.length, this.shown);
  }

  /** Brings the first match into view. */
  showFound(): void {
    const at = this.rows.findIndex(({ node }) => this.found?.[node] === 1);
    if (at >= 0) this.bring(at);
  }

  /** Goes to the next match below the focused row; after the last one, to the first. */
  nextFound(): void {
    const places = this.rows.flatMap(({ node }, at) => (this.found?.[node] === 1 && at < MOST_SHOWN ? [at] : []));
    const now = document.activeElement && this.body.contains(document.activeElement) ? (this.places.get(this.current) ?? -1) : -1;
    const next = places.find((at) => at > now) ?? places[0];
    if (next !== undefined) this.focus(next);
  }

  /** Whether the tree has the focus. */
  hasFocus(): boolean {
    return this.body.contains(document.activeElement);
  }

  private paint(): void {
    const wasOnHead = (document.activeElement as HTMLElement | null)?.closest("th")?.dataset.word;
    const hadFocus = this.hasFocus();
    this.current = this.nearest(this.current);
    const top = this.box.scrollTop;
    this.head.replaceChildren(this.headCell(NAME, "function", false), ...this.columns.map(({ word, name }) => this.headCell(word, name, true)));
    this.body.replaceChildren(...this.rows.slice(0, this.shown).map((row) => this.line(row)));
    this.box.scrollTop = top;
    if (wasOnHead !== undefined) for (const cell of this.head.cells) if (cell.dataset.word === wasOnHead) cell.querySelector("button")?.focus({ preventScroll: true });
    if (hadFocus) this.lineAt(this.places.get(this.current) ?? 0)?.focus({ preventScroll: true });
    this.drawMore();
  }

  private drawMore(): void {
    const hidden = this.rows.length - this.shown;
    this.more.replaceChildren();
    if (hidden <= 0) return;
    const step = Math.min(hidden, MOST_SHOWN);
    this.more.append(more(`Show ${step} more of ${this.rows.length} rows`, `Not printed: ${hidden} of ${this.rows.length} rows.`, () => this.extend(this.shown + step)));
  }

  /** Draws rows up to this number. */
  private extend(shown: number): void {
    const lines = this.rows.slice(this.shown, shown).map((row) => this.line(row));
    this.shown = Math.max(this.shown, shown);
    this.body.append(...lines);
    this.drawMore();
  }

  /** The node itself or its nearest caller among the rows that are drawn; else the first row. */
  private nearest(node: number): number {
    let at = node;
    while (at !== NO_NODE && !((this.places.get(at) ?? this.shown) < this.shown)) at = this.tree.callers[at] ?? NO_NODE;
    return at === NO_NODE ? (this.rows[0]?.node ?? 0) : at;
  }

  private headCell(word: string, name: string, isNumber: boolean): HTMLElement {
    const isSorted = word === (this.order?.column ?? USUAL);
    const isRising = isSorted && (this.order?.isReversed ?? false) === isNumber;
    const cell = make("th", { scope: "col", class: isNumber ? "number" : "", "aria-sort": isSorted ? (isRising ? "ascending" : "descending") : "none" });
    cell.dataset.word = word;
    cell.append(
      button(`${name}${isSorted ? (isRising ? " ▲" : " ▼") : ""}`, {}, () => {
        const isReversed = isSorted && !(this.order?.isReversed ?? false);
        this.acts.sort(word === USUAL && !isReversed ? null : { column: word, isReversed });
      }),
    );
    return cell;
  }

  private line({ node, place, of }: TreeRow): HTMLTableRowElement {
    const { paths, names } = this.of;
    const depth = paths.depth[node]!;
    const line = make("tr", { "aria-level": String(depth + 1), "aria-posinset": String(place), "aria-setsize": String(of), tabindex: node === this.current ? "0" : "-1" });
    line.dataset.key = String(node);
    const hasCallees = this.tree.hasCallees(node);
    if (hasCallees) line.setAttribute("aria-expanded", String(this.isOpen(node)));
    if (this.found) line.setAttribute("aria-selected", String(this.found[node] === 1));
    const name = oneLine(names[paths.name[node]!]!);
    const cell = make("td", { class: "name" }, make("i", { "aria-hidden": "true" }, hasCallees ? (this.isOpen(node) ? "▾" : "▸") : ""), make("b", {}, name));
    cell.style.setProperty("--depth", String(Math.min(depth, DEEPEST)));
    if (name.length > 40) cell.title = name.slice(0, 1_000);
    if (paths.hidden[node]! > 0) cell.append(make("small", {}, ` and ${duration(paths.hidden[node]!)} in callees that are left out`));
    line.append(cell);
    for (const column of this.columns) {
      const number = make("td", { class: "number" }, column.text(paths, node));
      number.dataset.value = String(column.number(paths, node));
      line.append(number);
    }
    return line;
  }

  private lineAt(at: number): HTMLTableRowElement | null {
    return this.body.rows[at] ?? null;
  }

  /** Makes it the row that Tab goes to. */
  private goTo(node: number, takesFocus: boolean): void {
    const before = this.lineAt(this.places.get(this.current) ?? -1);
    if (before) before.tabIndex = -1;
    this.current = node;
    const line = this.lineAt(this.places.get(node) ?? -1);
    if (!line) return;
    line.tabIndex = 0;
    if (takesFocus) line.focus({ preventScroll: true });
  }

  /** Draws up to this row, unless that is too far, and scrolls the tree, not the page, to it. */
  private bring(at: number): void {
    if (at >= this.shown && (at < MOST_SHOWN || at === this.shown)) this.extend(at + SHOWN);
    const line = this.lineAt(at);
    if (!line) return;
    const above = this.head.offsetHeight;
    if (line.offsetTop < this.box.scrollTop + above) this.box.scrollTop = line.offsetTop - above;
    const below = line.offsetTop + line.offsetHeight - this.box.clientHeight;
    if (below > this.box.scrollTop) this.box.scrollTop = below;
  }

  private focus(at: number): void {
    this.bring(at);
    const row = this.rows[at];
    const line = this.lineAt(at);
    if (!row || !line) return;
    this.goTo(row.node, true);
    line.scrollIntoView({ block: "nearest" });
  }

  private pressed(event: KeyboardEvent): void {
    const node = nodeOf(event.target);
    if (node === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const at = this.places.get(node) ?? 0;
    const isClosed = this.tree.hasCallees(node) && !this.isOpen(node);
    const isOpen = this.tree.hasCallees(node) && !isClosed;
    const turn = (nodes: number[], open: boolean) => this.acts.turn(nodes, open, event.repeat);
    const page = Math.max(1, Math.floor(this.box.clientHeight / (this.lineAt(at)?.offsetHeight || 24)) - 2);
    const last = Math.min(this.rows.length, this.shown) - 1;
    if (event.key === "ArrowDown") this.focus(Math.min(at + 1, this.rows.length - 1));
    else if (event.key === "ArrowUp") this.focus(Math.max(at - 1, 0));
    else if (event.key === "PageDown") this.focus(Math.min(at + page, this.rows.length - 1));
    else if (event.key === "PageUp") this.focus(Math.max(at - page, 0));
    else if (event.key === "Home") this.focus(0);
    else if (event.key === "End") this.focus(last);
    else if (event.key === "ArrowRight" && isClosed) turn([node], true);
    else if (event.key === "ArrowRight" && isOpen) this.focus(at + 1);
    else if (event.key === "ArrowLeft" && isOpen) turn([node], false);
    else if (event.key === "ArrowLeft") this.focus(this.places.get(this.tree.callers[node]!) ?? at);
    else if ((event.key === "Enter" || event.key === " ") && (isOpen || isClosed)) turn([node], isClosed);
    else if (event.key === "*") turn(this.tree.callees(this.tree.callers[node]!).filter((sibling) => this.tree.hasCallees(sibling)), true);
    else if (event.key !== "ArrowRight" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
  }
}

/** The node of the row that something happened in. */
function nodeOf(target: EventTarget | null): number | null {
  const key = (target as HTMLElement | null)?.closest("tr")?.dataset.key;
  return key === undefined ? null : Number(key);
}
