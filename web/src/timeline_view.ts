// The timeline: a bar for each bucket, stacked by value; the number of CPUs as a line. Dragging chooses a time.

import * as colours from "./colours.ts";
import { button, Canvas, colour, make, type Tip } from "./dom.ts";
import type { Recording } from "./data.ts";
import type { Dimension } from "./filter.ts";
import { listOfMarks, markAt, MARKS, paintMarks, timeOf, wordsOf } from "./marks.ts";
import { BOTTOM, DRAG_PX, LEFT, type Range, RIGHT, TimeScale } from "./time_scale.ts";
import { isNotRecorded, type Timeline } from "./timeline.ts";
import { amount, clockTime, counted, percent } from "./words.ts";

const HEIGHT = 240;
const TOP = MARKS + 4;
/** With more CPUs than this many times the peak, a line of them would dwarf the rest: then words say it. */
const CPUS_BEYOND = 3;

export class TimelineView {
  readonly element = make("div", { class: "timeline" });
  private readonly canvas: Canvas;
  private readonly scale: TimeScale;
  private readonly legend = make("ul", { class: "legend" });
  private readonly note = make("p", { class: "empty", role: "status" });
  private timeline: Timeline | null = null;
  private colours: string[] = [];
  private chosen: Range | null = null;
  private drag: { from: number; to: number } | null = null;

  constructor(
    private readonly of: Recording,
    private readonly tip: Tip,
    private readonly chooseTime: (range: Range | null) => void,
    private readonly choose: (dimension: Dimension, word: string) => void,
  ) {
    this.canvas = new Canvas("Average active sessions over time. Arrow keys select a time, with Shift a longer one; Escape clears it.", "group", () => this.paint());
    this.scale = new TimeScale(of, () => this.canvas.width);
    const marks = make("ul", { class: "legend marks", "aria-label": "Marks" }, ...listOfMarks(of, (mark) => chooseTime(timeOf(this.scale, mark))));
    marks.hidden = of.marks.length === 0;
    this.element.append(this.canvas.element, this.note, this.legend, marks);
    this.canvas.element.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.element.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.element.addEventListener("pointerup", (event) => this.end(event));
    this.canvas.element.addEventListener("pointercancel", () => this.stop());
    this.canvas.element.addEventListener("pointerleave", () => this.tip.hide());
    this.canvas.element.addEventListener("keydown", (event) => this.key(event));
  }

  draw(timeline: Timeline | null, chosen: Range | null): void {
    this.chosen = chosen;
    // If only another time is chosen, only the frame changes.
    if (timeline === null || timeline !== this.timeline) this.show(timeline);
    this.paint();
  }

  private show(timeline: Timeline | null): void {
    this.timeline = timeline;
    this.colours = timeline ? colours.ofValues(this.of, timeline.by, timeline.values) : [];
    const isEmpty = !timeline || timeline.values.length === 0;
    this.canvas.element.hidden = !timeline;
    this.note.hidden = !isEmpty;
    if (!timeline) this.note.textContent = this.of.no_timeline ?? "This recording has no duration.";
    else if (isEmpty) this.note.textContent = "No session was active in the selection.";
    if (timeline && timeline.before > 0) {
      this.note.hidden = false;
      this.note.textContent = `${amount(this.of, timeline.before)} began before the recording and are not drawn.`;
    }
    if (timeline && isNotRecorded(this.of, timeline.by)) {
      this.note.hidden = false;
      this.note.textContent = `'${timeline.by}' was not recorded.`;
    }
    this.legend.replaceChildren(...(timeline ? this.lines(timeline) : []));
    this.canvas.element.replaceChildren(...(timeline ? [this.table(timeline)] : []));
  }

  private lines(timeline: Timeline): HTMLElement[] {
    const values = timeline.values.map((value, at) => {
      const mark = make("i", { class: "swatch", "aria-hidden": "true" });
      mark.style.background = this.colours[at]!;
      const rate = timeline.ns > 0 && timeline.rate !== null ? (timeline.rate * value.ns) / timeline.ns : 0;
      const numbers = make("small", {}, ` ${rate.toFixed(2)} · ${percent(value.ns, timeline.ns)} %`);
      const label = value.label.length > 70 ? `${value.label.slice(0, 69)}…` : value.label;
      const line = make("li");
      if (value.word === null) line.append(mark, label, numbers);
      else {
        const word = value.word;
        const choose = button(label, { "aria-label": `Only ${value.label}` }, () => this.choose(timeline.by, word));
        choose.prepend(mark);
        line.append(choose, numbers);
      }
      return line;
    });
    const areAbove = this.knowsCpus && !this.hasCpus && timeline.values.length > 0;
    return areAbove ? [...values, make("li", {}, make("small", {}, `${counted(this.of.cpus, "CPU")}, above the chart`))] : values;
  }

  /** The same in numbers, inside the canvas: for screen readers. */
  private table(timeline: Timeline): HTMLTableElement {
    const head = make("tr", {}, make("th", { scope: "col" }, "time"), ...timeline.values.map((value) => make("th", { scope: "col" }, value.label)));
    const rows = timeline.rates.map((rates, bucket) => {
      const begin = timeline.bounds[bucket]![0];
      const cells = timeline.values.map((_, value) => make("td", {}, rates ? rates[value]!.toFixed(3) : "nothing recorded"));
      const row = make("tr", {}, make("th", { scope: "row" }, clockTime(this.of, begin / 1e6)), ...cells);
      row.dataset.us = String(begin);
      return row;
    });
    return make("table", {}, make("caption", {}, `${this.of.are_times ? "Average active sessions" : "Per second"}, by bucket`), make("thead", {}, head), make("tbody", {}, ...rows));
  }

  private get top(): number {
    const peak = this.timeline?.peak ?? 0;
    const cpus = this.hasCpus ? this.of.cpus : 0;
    return Math.max(peak, cpus) * 1.06 || 1;
  }

  private get hasCpus(): boolean {
    return this.knowsCpus && this.of.cpus <= CPUS_BEYOND * (this.timeline?.peak ?? 0);
  }

  private get knowsCpus(): boolean {
    return this.of.are_times && this.of.cpus > 0;
  }

  private paint(): void {
    const timeline = this.timeline;
    const context = timeline && this.canvas.cleared(HEIGHT);
    if (!timeline || !context) return;
    const { width } = this.canvas;
    const bottom = HEIGHT - BOTTOM;
    const y = (rate: number) => bottom - Math.min(1, rate / this.top) * (bottom - TOP);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const pale = colour("pale");
    const grid = colour("line");
    const step = roundStep((this.top * 36) / (bottom - TOP));
    for (let value = 0; value <= this.top; value += step) {
      const at = Math.round(y(value)) + 0.5;
      context.fillStyle = grid;
      context.fillRect(LEFT, at, width - LEFT - RIGHT, 1);
      context.fillStyle = pale;
      context.textAlign = "right";
      context.fillText(String(Math.round(value * 1e6) / 1e6), LEFT - 6, at);
    }
    timeline.bounds.forEach(([begin, end], bucket) => {
      const left = this.scale.x(begin / 1e6);
      const right = this.scale.x(end / 1e6);
      const rates = timeline.rates[bucket];
      if (!rates) return;
      let below = 0;
      rates.forEach((rate, value) => {
        if (rate === 0) return;
        const from = y(below);
        below += rate;
        context.fillStyle = this.colours[value]!;
        context.fillRect(left, y(below), Math.max(0.6, right - left - (right - left > 4 ? 0.6 : 0)), from - y(below));
      });
    });
    this.scale.hatchGaps(context, TOP, bottom);
    paintMarks(context, this.of, this.scale, bottom);
    if (this.hasCpus) {
      const at = Math.round(y(this.of.cpus)) + 0.5;
      const line = colour("cpus");
      context.strokeStyle = line;
      context.lineWidth = 1.5;
      context.setLineDash([7, 4]);
      context.beginPath();
      context.moveTo(LEFT, at);
      context.lineTo(width - RIGHT, at);
      context.stroke();
      context.setLineDash([]);
      context.textAlign = "right";
      context.lineWidth = 3;
      context.strokeStyle = colour("paper");
      context.strokeText(counted(this.of.cpus, "CPU"), width - RIGHT - 4, at - 8);
      context.fillStyle = line;
      context.fillText(counted(this.of.cpus, "CPU"), width - RIGHT - 4, at - 8);
    }
    this.scale.drawAxis(context, bottom);
    const range = this.drag ? this.scale.windows(this.drag.from, this.drag.to) : this.chosen;
    if (range) this.scale.frame(context, range, TOP, bottom);
  }

  private begin(event: PointerEvent): void {
    if (event.button !== 0) return;
    const second = this.scale.secondAt(event.offsetX);
    this.drag = { from: second, to: second };
    this.canvas.element.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    if (this.drag) {
      this.drag.to = this.scale.secondAt(event.offsetX);
      const [from, to] = this.scale.windows(this.drag.from, this.drag.to);
      this.tip.show(event, [`${clockTime(this.of, from)} to ${clockTime(this.of, to)}`]);
      this.paint();
      return;
    }
    const mark = markAt(this.of, this.scale, event.offsetX, event.offsetY);
    if (mark) return this.tip.show(event, [wordsOf(this.of, mark)]);
    const at = this.valueAt(event.offsetX, event.offsetY);
    if (!at || !this.timeline) return this.tip.hide();
    const { bucket, value } = at;
    const [begin, end] = this.timeline.bounds[bucket]!;
    const rates = this.timeline.rates[bucket];
    const lines = [`${clockTime(this.of, begin / 1e6)}, ${((end - begin) / 1e6).toFixed(1)} s`];
    if (!rates) lines.push("nothing recorded");
    else {
      const total = rates.reduce((sum, rate) => sum + rate, 0);
      lines.push(`all: ${total.toFixed(2)} average active sessions`);
      if (value >= 0) lines.push(`${this.timeline.values[value]!.label.slice(0, 120)}: ${rates[value]!.toFixed(2)} (${percent(rates[value]!, total)} %)`);
    }
    this.tip.show(event, lines);
  }

  private end(event: PointerEvent): void {
    const drag = this.drag;
    this.stop();
    if (!drag || !this.timeline) return;
    const moved = Math.abs(this.scale.x(drag.from) - this.scale.x(drag.to));
    if (moved >= DRAG_PX) return this.chooseTime(this.scale.windows(drag.from, drag.to));
    const mark = markAt(this.of, this.scale, event.offsetX, event.offsetY);
    if (mark) return this.chooseTime(timeOf(this.scale, mark));
    const at = this.valueAt(event.offsetX, event.offsetY);
    const word = at && at.value >= 0 ? this.timeline.values[at.value]!.word : null;
    if (word !== null) this.choose(this.timeline.by, word);
  }

  private stop(): void {
    this.drag = null;
    this.tip.hide();
    this.paint();
  }

  private valueAt(x: number, y: number): { bucket: number; value: number } | null {
    const timeline = this.timeline;
    if (!timeline || x < LEFT || x > this.canvas.width - RIGHT) return null;
    const us = this.scale.secondAt(x) * 1e6;
    const bucket = timeline.bounds.findIndex(([begin, end]) => us >= begin && us < end);
    if (bucket < 0) return null;
    const bottom = HEIGHT - BOTTOM;
    const rate = ((bottom - y) / (bottom - TOP)) * this.top;
    let below = 0;
    const value = (timeline.rates[bucket] ?? []).findIndex((part) => {
      below += part;
      return part > 0 && rate >= 0 && rate < below;
    });
    return { bucket, value };
  }

  private key(event: KeyboardEvent): void {
    if (!this.timeline) return;
    if (event.key === "Escape" && this.chosen) {
      this.chooseTime(null);
      event.stopPropagation();
    }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const width = this.timeline.width_s;
    const [first, end] = this.scale.period;
    const [from, to] = this.chosen ?? (step > 0 ? [Math.floor(first / width) * width - width, Math.floor(first / width) * width] : [Math.ceil(end / width) * width, Math.ceil(end / width) * width + width]);
    const next: Range = event.shiftKey && this.chosen ? [from, to + step * width] : [from + step * width, to + step * width];
    if (next[1] > next[0] && next[1] > first && next[0] < end) this.chooseTime(next);
  }
}

/** The smallest of 1, 2, 5 times a power of ten that is not below `least`. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((digit) => digit * power >= least) ?? 10) * power;
}
