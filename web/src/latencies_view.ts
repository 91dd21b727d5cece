// How long single events took: one kind of them, by group; with a heat map and a histogram of what is chosen among these.

import type { Recording } from "./data.ts";
import { choice, make, type Tip } from "./dom.ts";
import { choosesSessions, DIMENSION_NAMES, type Filter, isFiltered } from "./filter.ts";
import { HeatMapView } from "./heat_map_view.ts";
import { Histogram, type Range, rangeWords } from "./histogram.ts";
import { HistogramView } from "./histogram_view.ts";
import { Kept } from "./kept.ts";
import { eventsTaken, type Group, groups, type HeatMap, heatMap, LATENCY_BY, type LatencyBy, type LatencyChoice, notToldApart, ofGroup, ofRange, waysToGroup } from "./latencies.ts";
import { type Column, type Order, RankedTable } from "./ranked_table.ts";
import { statementLabel } from "./timeline.ts";
import type { LatencyWords } from "./view.ts";
import { duration, nameOr, oneLine, seconds } from "./words.ts";

const BY_NAMES: Record<LatencyBy, string> = { name: "name", device: "device", source: "source" };

export class LatenciesView {
  readonly element = make("div", { class: "latencies" });
  private readonly what = make("p", { class: "note" });
  private readonly note = make("p", { class: "note" });
  private readonly empty = make("p", { class: "empty", role: "status" });
  private readonly shown = make("div", {});
  private readonly title = make("h3");
  private readonly histogram: HistogramView;
  private readonly heat: HeatMapView;
  private readonly table: RankedTable<Group>;
  private readonly tools = make("div", { class: "tools" });
  private readonly kinds;
  /** It covers all of time, whatever part is chosen. */
  private readonly map = new Kept<HeatMap | null>(2);
  private readonly found = new Kept<Group[]>(2);
  private choice: LatencyChoice = { kind: 0, by: ["name"], of: null };
  private elapsed = 0;
  private words: LatencyWords = { kind: null, by: null, of: null, us: null };

  constructor(
    private readonly of: Recording,
    tip: Tip,
    chooseTime: (range: [number, number] | null) => void,
    private readonly choose: (words: LatencyWords) => void,
    sorted: (order: Order | null) => void,
  ) {
    const { kinds } = of.latencies;
    this.heat = new HeatMapView(of, tip, chooseTime);
    this.kinds = choice("of", kinds.map(({ kind }) => kind), (kind) => kinds.find((known) => known.kind === kind)!.words, (kind) => choose({ kind, by: null, of: null, us: null }));
    this.histogram = new HistogramView((us) => this.choose({ ...this.words, us: this.words.us?.[1] === us[1] ? null : us }));
    this.table = new RankedTable<Group>("Latencies", this.columns(), "total", ({ labels }) => JSON.stringify(labels), (group) => this.isChosen(group), (group) => this.choose({ ...this.words, of: this.isChosen(group) ? null : group.labels }), sorted, false, () => "No event took that long.");
    this.shown.append(this.table.element, this.title, this.heat.element, this.histogram.element);
    this.element.append(this.tools, this.what, this.note, this.empty, this.shown);
  }

  sortBy(order: Order | undefined): void {
    this.table.sortBy(order);
  }

  /** `otherTime`: what to say if windows are longer than the chosen time. */
  draw(words: LatencyWords, filter: Filter, elapsed: number, otherTime: string): void {
    const { of } = this;
    const all = of.latencies;
    this.words = words;
    this.elapsed = elapsed;
    this.tools.hidden = all.kinds.length === 0;
    if (all.kinds.length === 0) return this.say(`There are no latencies in this recording. ${all.how_to_record ?? ""}`);
    const kind = Math.max(0, all.kinds.findIndex((known) => known.kind === words.kind));
    const ways = waysToGroup(all, kind);
    const by = ways.find((way) => way.join() === words.by) ?? ways[0]!;
    const isOne = words.of?.length === by.length;
    this.choice = { kind, by, of: isOne ? words.of : null };
    const { words: called, explanation, kind: word } = all.kinds[kind]!;
    this.kinds.set(word);
    const way = choice("by", ways.map((each) => each.join()), (each) => each.split(",").map((name) => BY_NAMES[name as LatencyBy]).join(", "), (each) => this.choose({ ...this.words, by: each, of: null }));
    way.set(by.join());
    way.element.hidden = ways.length < 2;
    this.tools.replaceChildren(this.kinds.element, way.element);
    this.what.textContent = [explanation, `All events are counted; ${all.quantiles}.`, all.lost > 0 ? `${all.lost} events of the whole recording are missing, because the recorder had no room for them.` : ""].join(" ").trim();
    const names = notToldApart(of, kind, filter).map((dimension) => DIMENSION_NAMES[dimension]);
    if (choosesSessions(filter) && all.apart === "none") names.push("session");
    if (names.length > 0) return this.say(`${called} cannot be filtered by ${names.join(" and ")} on this page: clear that filter to see them.`);
    const alike = choosesSessions(filter) && all.apart === "alike" ? "Latencies are kept for all sessions of the same kind, user, database and application: they are those of all sessions like the selected ones." : "";
    const { us } = words;
    const onlyHere = us ? `Only this part of the page is limited to events of ${rangeWords(us)}: time elsewhere is not broken down by how long events took.` : "";
    this.note.textContent = [otherTime, alike, onlyHere].join(" ").trim();
    this.note.hidden = this.note.textContent === "";
    const asked = JSON.stringify([kind, by, filter.from, filter.to, ...filter.words]);
    const found = this.found.get(asked, () => groups(all, eventsTaken(of, kind, filter), by));
    if (found.length === 0) return this.say(isFiltered(filter) ? "There is no such event in the selection." : "There was no such event.");
    this.empty.hidden = true;
    this.shown.hidden = false;
    this.table.update(us ? within(found, us) : found);
    // All its bars stay, so that another one can be chosen.
    const one = this.choice.of ? found.find((group) => this.isChosen(group))?.histogram : Histogram.of(found.map(({ histogram }) => histogram));
    const name = this.choice.of ? this.choice.of.map((label) => nameOr(label)).join(", ") : called;
    const title = us ? `${oneLine(name)}, ${rangeWords(us)}` : oneLine(name);
    const these = us ? one?.within(us) : one;
    this.title.textContent = these && these.count > 0 ? `${title}: ${summary(these, us)}` : `${title}: no event in the selection`;
    const chosen = filter.from === null && filter.to === null ? null : ([filter.from ?? of.from_us / 1e6, filter.to ?? of.to_us / 1e6] as [number, number]);
    const question = JSON.stringify([this.choice, us, ...filter.words]);
    const map = this.map.get(question, () => heatMap(of, ofRange(all, ofGroup(all, eventsTaken(of, kind, filter, false), this.choice), us)));
    this.heat.draw(map, chosen);
    this.histogram.draw(one ?? null, us);
  }

  private say(why: string): void {
    this.empty.textContent = why;
    this.empty.hidden = false;
    this.shown.hidden = true;
    this.note.hidden = true;
    this.what.hidden = this.of.latencies.kinds.length === 0;
    this.table.update([]);
  }

  private isChosen({ labels }: Group): boolean {
    return this.choice.of !== null && JSON.stringify(this.choice.of) === JSON.stringify(labels);
  }

  private columns(): Column<Group>[] {
    const { of } = this;
    const perSecond = (count: number) => (this.elapsed > 0 && of.are_times ? ((count * 1e9) / this.elapsed).toFixed(1) : "");
    // For a single bucket they would say no more than its bounds.
    const quantile = (word: string, q: number) => number(word, word, (all) => (this.words.us ? 0 : all.quantile(q)), (ns) => (this.words.us ? "–" : duration(ns)));
    return [
      { word: "event", name: "event", text: ({ labels }) => labels.map((label, at) => this.label(this.choice.by[at]!, label)).join(", "), isWide: true },
      number("events", "events", (all) => all.count, (count) => count.toLocaleString("en")),
      number("per_second", "per s", (all) => all.count, perSecond),
      number("total", "total, s", (all) => all.sum, seconds),
      number("mean", "mean", (all) => all.mean, duration),
      quantile("p50", 0.5),
      quantile("p95", 0.95),
      quantile("p99", 0.99),
      quantile("p99.9", 0.999),
      number("max", "max", (all) => all.max, duration),
    ];
  }

  private label(by: LatencyBy, label: string): string {
    if (by !== LATENCY_BY[0] || this.of.latencies.kinds[this.choice.kind]!.names !== "query") return nameOr(label);
    const at = this.of.statements.findIndex((statement) => statement.query === label);
    return at >= 0 ? statementLabel(this.of, at) : label;
  }
}

/** For each group the events that took this long; groups without any are left out. */
function within(found: Group[], range: Range): Group[] {
  return found.map(({ labels, histogram }) => ({ labels, histogram: histogram.within(range) })).filter(({ histogram }) => histogram.count > 0);
}

function summary(of: Histogram, range: Range | null): string {
  const quantiles = range ? [] : [0.5, 0.99, 0.999].map((q) => `p${(q * 100).toFixed(q > 0.99 ? 1 : 0)} ${duration(of.quantile(q))}`);
  return `${of.count === 1 ? "1 event" : `${of.count.toLocaleString("en")} events`}, ${duration(of.sum)} in all; ${[...quantiles, `max ${duration(of.max)}`].join(", ")}`;
}

/** A column of a quantity of events. */
function number(word: string, name: string, get: (histogram: Histogram) => number, text: (value: number) => string): Column<Group> {
  return { word, name, number: (group) => get(group.histogram), text: (group) => text(get(group.histogram)) };
}
