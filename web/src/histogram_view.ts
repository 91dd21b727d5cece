// How often events took how long, and where the time went, in power-of-two buckets. Each can be chosen.

import { actOn } from "./chosen_row.ts";
import { make } from "./dom.ts";
import { type Bucket, type Histogram, type Range, rangeWords } from "./histogram.ts";
import { counted, duration, percent, seconds } from "./words.ts";

export class HistogramView {
  readonly element = make("div", { class: "scroll" });

  constructor(private readonly choose: (range: Range) => void) {}

  /** Draws nothing without events. */
  draw(of: Histogram | null, chosen: Range | null): void {
    const focused = this.element.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.from : undefined;
    this.element.replaceChildren(...(of ? [this.table(of, chosen)] : []));
    if (focused !== undefined) this.element.querySelector<HTMLElement>(`tr[data-from="${focused}"]`)?.focus({ preventScroll: true });
  }

  private table(of: Histogram, chosen: Range | null): HTMLTableElement {
    const buckets = of.powersOfTwo();
    const largest = Math.max(...buckets.map(({ count }) => count));
    const names = ["from us", "to us", "events", "% events", "", "mean", "time, s", "% time", ""];
    const head = make("tr", {}, ...names.map((name) => make("th", name === "" ? { class: "part-of", "aria-hidden": "true" } : { scope: "col", class: "number" }, name)));
    const rows = buckets.map((bucket) => this.line(bucket, of, largest, chosen));
    const caption = make("caption", { class: "unseen" }, `Events by how long they took, in ${counted(buckets.length, "bucket")}`);
    return make("table", { class: "histogram", role: "grid", "aria-multiselectable": "false" }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
  }

  private line({ from_us, to_us, count, sum }: Bucket, of: Histogram, largest: number, chosen: Range | null): HTMLTableRowElement {
    const isChosen = chosen?.[1] === to_us;
    const row = make("tr", { tabindex: "0", "aria-selected": String(isChosen), title: `Only events of ${rangeWords([from_us, to_us])}` });
    row.append(cell(String(from_us)), cell(String(to_us)), cell(count.toLocaleString("en")), cell(percent(count, of.count)), bar(count / largest, "events"));
    row.append(cell(count > 0 ? duration(Math.floor(sum / count)) : "–"), cell(count > 0 ? seconds(sum) : "–"), cell(percent(sum, of.sum)), bar(of.sum > 0 ? sum / of.sum : 0, "time"));
    row.dataset.from = String(from_us);
    row.dataset.count = String(count);
    row.dataset.ns = String(sum);
    actOn(row, () => this.choose([from_us, to_us]));
    return row;
  }
}

function cell(text: string): HTMLElement {
  return make("td", { class: "number" }, text);
}

function bar(part: number, kind: string): HTMLElement {
  const mark = make("i", { class: kind });
  mark.style.width = `${part * 100}%`;
  return make("td", { class: "part-of", "aria-hidden": "true" }, mark);
}
