// The ledger as a matrix: a row for each wait event, a column for each state, shaded by time.

import * as colours from "./colours.ts";
import { DB_TIME, IN_TRANSACTION, type Recording } from "./data.ts";
import { button, make, more } from "./dom.ts";
import type { Dimension } from "./filter.ts";
import { type Ledger, type LedgerRow, SECTION_WORDS, SECTIONS } from "./ledger.ts";
import { amount, cell, oneLine, percent } from "./words.ts";

/** Rows of DB time that are shown before the others are requested. */
const SHOWN = 20;

export class LedgerView {
  readonly element = make("div", { class: "ledger" });
  private showsAll = false;
  private areOthersOpen = false;

  constructor(
    private readonly of: Recording,
    private readonly choose: (words: [Dimension, string][]) => void,
  ) {}

  draw(ledger: Ledger): void {
    const states = this.of.states.map((_, state) => state).filter((state) => ledger.rows.some((row) => row.ns[state]! > 0));
    const dbTime = ledger.rows.filter((row) => row.section === DB_TIME);
    const others = ledger.rows.filter((row) => row.section !== DB_TIME);
    const shown = this.showsAll ? dbTime : dbTime.slice(0, SHOWN);
    this.element.replaceChildren(this.matrix("Where DB time went", states, shown, ledger));
    if (shown.length < dbTime.length) {
      const hidden = dbTime.length - shown.length;
      this.element.append(
        more(`Show ${hidden} more wait events`, `Not printed: ${hidden} of ${dbTime.length} wait events.`, () => {
          this.showsAll = true;
          this.draw(ledger);
        }),
      );
    }
    if (others.length > 0) {
      const sum = others.reduce((all, row) => all + row.total, 0);
      const details = make(
        "details",
        { class: "others" },
        make("summary", {}, `Not part of DB time: sessions waiting for work and background processes, ${amount(this.of, sum)}`),
        this.matrix("Not part of DB time", states, others, ledger),
      );
      details.open = this.areOthersOpen;
      details.addEventListener("toggle", () => {
        this.areOthersOpen = details.open;
      });
      this.element.append(details);
    }
  }

  private matrix(name: string, states: number[], rows: LedgerRow[], ledger: Ledger): HTMLElement {
    const largest = Math.max(1, ...rows.flatMap((row) => row.ns));
    const isDbTime = rows.every((row) => row.section === DB_TIME);
    const head = make(
      "tr",
      {},
      make("th", { scope: "col" }, "wait event"),
      make("th", { scope: "col", class: "number" }, "total"),
      isDbTime ? make("th", { scope: "col", class: "number" }, "%") : null,
      ...states.map((state) => {
        const word = this.of.states[state]!;
        const mark = make("i", { class: "swatch", "aria-hidden": "true" });
        mark.style.background = colours.ofState(this.of, word);
        const choose = button(word, { "aria-label": `Only state ${word}` }, () => this.choose([["state", word]]));
        choose.prepend(mark);
        return make("th", { scope: "col", class: "number" }, choose);
      }),
    );
    const body = make("tbody", {}, ...rows.map((row) => this.line(row, states, largest, ledger)));
    const table = make("table", { class: "matrix" }, make("caption", { class: "unseen" }, name), make("thead", {}, head), body);
    if (isDbTime) {
      const sums = states.map((state) => make("td", { class: "number" }, cell(this.of, ledger.byState[state]!)));
      const total = make("td", { class: "number", id: "db-time" }, cell(this.of, ledger.sums[DB_TIME]!));
      total.dataset.ns = String(ledger.sums[DB_TIME]);
      const whole = make("td", { class: "number" }, ledger.sums[DB_TIME]! > 0 ? "100.0" : "");
      table.append(make("tfoot", {}, make("tr", {}, make("th", { scope: "row" }, "DB time"), total, whole, ...sums)));
    }
    return make("div", { class: "scroll" }, table);
  }

  private line(row: LedgerRow, states: number[], largest: number, ledger: Ledger): HTMLElement {
    const wait = this.of.waits[row.wait]!.label;
    const suffix = row.rest === IN_TRANSACTION ? " (in transaction)" : "";
    const isDbTime = row.section === DB_TIME;
    const mark = make("i", { class: "swatch", "aria-hidden": "true" });
    mark.style.background = colours.ofWait(this.of, wait) ?? this.of.palette.other;
    const name = button(make("span", {}, oneLine(wait) + suffix), { class: "name", "aria-label": `Only wait event ${oneLine(wait)}` }, () => this.choose([["wait", wait]]));
    name.prepend(mark);
    const line = make("tr", {}, make("th", { scope: "row" }, name, isDbTime ? null : make("small", {}, ` ${SECTIONS[row.section]!}`)));
    line.dataset.section = SECTION_WORDS[row.section]!;
    line.dataset.wait = wait;
    line.dataset.rest = String(row.rest);
    line.dataset.ns = String(row.total);
    line.dataset.mix = row.mix ?? "";
    line.append(make("td", { class: "number" }, cell(this.of, row.total)));
    if (isDbTime) line.append(make("td", { class: "number" }, percent(row.total, ledger.sums[DB_TIME]!)));
    for (const state of states) {
      const ns = row.ns[state]!;
      const word = this.of.states[state]!;
      const td = make("td", { class: "number" });
      td.dataset.state = word;
      td.dataset.ns = String(ns);
      if (ns > 0) {
        const share = Math.round(12 + 78 * Math.sqrt(ns / largest));
        td.style.setProperty("--shade", `color-mix(in srgb, ${colours.ofState(this.of, word)} ${share}%, transparent)`);
        td.classList.add("shaded");
        td.append(
          button(cell(this.of, ns), { "aria-label": `${oneLine(wait)}, ${word}: ${amount(this.of, ns)}; only this` }, () =>
            this.choose([
              ["wait", wait],
              ["state", word],
            ]),
          ),
        );
      } else td.append("–");
      line.append(td);
    }
    return line;
  }
}
