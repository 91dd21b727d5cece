// The database's view of the time beside DB time: two bars, and the steps between them. Each part of DB time can be chosen.

import * as colours from "./colours.ts";
import type { Recording } from "./data.ts";
import { databaseView, NONE, type Words } from "./database_view.ts";
import { button, make } from "./dom.ts";
import type { Ledger } from "./ledger.ts";
import { cell, percent } from "./words.ts";

/** CPU and waits as the database counts them beside DB time, and what separates them. */
export function drawDatabaseView(of: Recording, ledger: Ledger, into: HTMLElement, choose: (words: Words) => void): void {
  const view = databaseView(of, ledger);
  into.style.setProperty("--on-cpu", colours.ofState(of, "cpu"));
  into.style.setProperty("--waiting", colours.ofState(of, "disk"));
  into.replaceChildren(make("h3", {}, "What the database says, and what happened"));
  if (of.one_sided) {
    into.append(make("p", {}, of.one_sided));
    return;
  }
  if (view.dbTime === 0 && view.cpu === 0) {
    into.append(make("p", { class: "empty" }, "There is no DB time in the selection, so there is nothing to compare."));
    return;
  }
  const widest = Math.max(view.cpu + view.wait, view.dbTime);
  const part = (ns: number, kind: string, chooses: Words) => {
    const element = make("div", { class: `part ${kind}` });
    element.style.width = `${(ns / widest) * 100}%`;
    // Without a pointer, there are the rows of the table and, for waits off the CPU, the states of the ledger.
    if (chooses.size > 0) element.addEventListener("click", () => choose(chooses));
    return element;
  };
  const bars = make(
    "div",
    { class: "bars", "aria-hidden": "true" },
    make("div", { class: "bar" }, part(view.cpu, "cpu", view.choosesCpu), part(view.wait - view.doubleCounted, "wait", view.choosesOffCpu), part(view.doubleCounted, "twice", view.steps[0]!.chooses)),
    make("div", { class: "bar" }, part(view.dbTime, "dbtime", NONE)),
  );
  const head = ["step", of.are_times ? "time, s" : of.unit, "% of DB time"].map((name, at) => make("th", { scope: "col", class: at > 0 ? "number" : "" }, name));
  const body = make("tbody");
  const table = make("table", { class: "steps" }, make("caption", { class: "unseen" }, "From what the database says to what happened"), make("thead", {}, make("tr", {}, ...head)), body);
  const line = (words: string, ns: number, kind: string, sign: string, chooses: Words) => {
    const name = chooses.size > 0 ? button(words, { "aria-label": `Only ${words}` }, () => choose(chooses)) : words;
    const row = make("tr", { class: kind }, make("th", { scope: "row" }, name));
    row.append(make("td", { class: "number" }, `${ns === 0 ? "" : sign}${cell(of, Math.abs(ns))}`));
    row.append(make("td", { class: "number" }, ns === 0 ? "" : `${sign}${percent(Math.abs(ns), view.dbTime)}`));
    row.dataset.ns = String(ns);
    body.append(row);
  };
  line("CPU the database counts (getrusage)", view.cpu, "of-cpu", "", view.choosesCpu);
  line("Time inside wait events", view.wait, "of-wait", "+", view.choosesWait);
  line("= what the database can show", view.cpu + view.wait, "sum", "", NONE);
  for (const { words, ns, chooses } of view.steps) if (ns !== 0) line(words, ns, words.endsWith("counted twice") ? "of-twice" : "", ns < 0 ? "−" : "+", chooses);
  line("= DB time", view.dbTime, "sum", "", NONE);
  into.append(bars, table);
}
