// A table that can be sorted, whose rows can be chosen. While the pointer or the focus is in it, rows stay where they are: their numbers
// change, their order does not. The page keeps the order.

import { actOn } from "./chosen_row.ts";
import { button, make, more } from "./dom.ts";

export interface Column<Row> {
  /** The word for it in the address of the page. */
  word: string;
  name: string;
  /** Numbers are sorted the largest first, and aligned right. */
  number?: (row: Row) => number;
  text: (row: Row) => string;
  /** For the colour: above 0 more, below less. */
  tone?: (row: Row) => number;
  isWide?: boolean;
}

/** By which column, and whether in reverse. */
export interface Order {
  column: string;
  isReversed: boolean;
}

const SHOWN = 15;

export class RankedTable<Row> {
  readonly element = make("div", { class: "ranked" });
  private readonly head = make("tr");
  private readonly body = make("tbody");
  private readonly more = make("div");
  private readonly empty = make("p", { class: "empty" });
  private rows = new Map<string, Row>();
  private order: string[] = [];
  private sort: number;
  private isReversed = false;
  private isHeld = false;
  private shown = SHOWN;

  constructor(
    name: string,
    private readonly columns: Column<Row>[],
    private readonly usual: string,
    private readonly keyOf: (row: Row) => string,
    private readonly isChosen: (row: Row) => boolean,
    /** Without it nothing can be chosen. */
    private readonly choose: ((row: Row) => void) | null,
    private readonly sorted: (order: Order | null) => void,
    canChooseSeveral = false,
    /** The text without rows. */
    private readonly whyEmpty: () => string = () => "",
  ) {
    this.sort = this.place(usual);
    // Only a grid can say which rows are chosen.
    const table = make("table", choose ? { role: "grid", "aria-multiselectable": String(canChooseSeveral) } : {}, make("caption", { class: "unseen" }, name), make("thead", {}, this.head), this.body);
    this.element.append(make("div", { class: "scroll" }, table), this.empty, this.more);
    const hold = (isHeld: boolean) => () => {
      this.isHeld = isHeld;
      if (!isHeld) this.rank();
    };
    this.body.addEventListener("pointerenter", hold(true));
    this.body.addEventListener("pointerleave", hold(false));
    this.body.addEventListener("focusin", hold(true));
    this.body.addEventListener("focusout", (event) => {
      if (!this.body.contains(event.relatedTarget as Node | null) && !this.body.matches(":hover")) hold(false)();
    });
  }

  update(rows: Row[]): void {
    this.rows = new Map(rows.map((row) => [this.keyOf(row), row]));
    if (!this.isHeld) {
      this.rank();
      return;
    }
    // New rows come last; those that have gone leave an empty place.
    const known = new Set(this.order);
    for (const key of this.rows.keys()) if (!known.has(key)) this.order.push(key);
    this.draw();
  }

  /** Redraws what is chosen. */
  redraw(): void {
    this.draw();
  }

  /** Sorts by this order; as usual without one, or if it has no such column. */
  sortBy(order: Order | undefined): void {
    const isKnown = order !== undefined && this.columns.some((column) => column.word === order.column);
    const sort = this.place(isKnown ? order.column : this.usual);
    const isReversed = isKnown && order.isReversed;
    if (sort === this.sort && isReversed === this.isReversed) return;
    this.sort = sort;
    this.isReversed = isReversed;
    this.rank();
  }

  private place(word: string): number {
    return this.columns.findIndex((column) => column.word === word);
  }

  private rank(): void {
    const column = this.columns[this.sort]!;
    const sign = this.isReversed ? -1 : 1;
    // Equal ones keep their order.
    const rows = [...this.rows].toSorted(([, one], [, other]) =>
      column.number
        ? (column.number(other) - column.number(one)) * sign
        : compare(column.text(one), column.text(other)) * sign,
    );
    this.order = rows.map(([key]) => key);
    this.draw();
  }

  private draw(): void {
    const wasOnHead = this.head.contains(document.activeElement);
    this.head.replaceChildren(
      ...this.columns.map((column, at) => {
        const isSorted = at === this.sort;
        const isRising = this.isReversed === (column.number !== undefined);
        const cell = make("th", {
          scope: "col",
          class: column.number ? "number" : "",
          "aria-sort": isSorted ? (isRising ? "ascending" : "descending") : "none",
        });
        cell.append(
          button(`${column.name}${isSorted ? (isRising ? " ▲" : " ▼") : ""}`, {}, () => {
            const isReversed = isSorted && !this.isReversed;
            this.sorted(column.word === this.usual && !isReversed ? null : { column: column.word, isReversed });
          }),
        );
        return cell;
      }),
    );
    if (wasOnHead) this.head.cells[this.sort]?.querySelector("button")?.focus({ preventScroll: true });
    const focused = (document.activeElement as HTMLElement | null)?.dataset.key;
    const wasInside = this.body.contains(document.activeElement);
    this.body.replaceChildren(...this.order.slice(0, this.shown).map((key) => this.line(key)));
    if (wasInside && focused !== undefined) {
      // If the user has scrolled away from it since, the page stays there.
      for (const row of this.body.rows) if (row.dataset.key === focused) row.focus({ preventScroll: true });
    }
    this.empty.textContent = this.order.length === 0 ? this.whyEmpty() : "";
    this.empty.hidden = this.empty.textContent === "";
    const hidden = this.order.length - this.shown;
    this.more.replaceChildren();
    if (hidden > 0) {
      const step = Math.min(hidden, 100);
      this.more.append(
        more(`Show ${step} more of ${this.order.length}`, `Not printed: ${hidden} of ${this.order.length}.`, () => {
          this.shown += step;
          this.draw();
        }),
      );
    }
  }

  private line(key: string): HTMLTableRowElement {
    const row = this.rows.get(key);
    const line = make("tr", { tabindex: "0" });
    line.dataset.key = key;
    if (!row) {
      line.className = "gone";
      line.append(make("td", { colspan: String(this.columns.length) }, "no time in the selection"));
      return line;
    }
    if (this.choose) line.setAttribute("aria-selected", String(this.isChosen(row)));
    else line.className = "still";
    for (const column of this.columns) {
      const text = column.text(row);
      const cell = make("td", { class: column.number ? "number" : column.isWide ? "wide" : "" }, text);
      const tone = column.tone?.(row) ?? 0;
      if (tone !== 0) cell.classList.add(tone > 0 ? "worse" : "better");
      if (column.number) cell.dataset.value = String(column.number(row));
      else if (text.length > 40) cell.title = text;
      line.append(cell);
    }
    actOn(line, () => this.choose?.(row));
    return line;
  }
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
