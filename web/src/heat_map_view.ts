// Latencies over time on a canvas: time to the right, latency upwards in powers of two, colour for the number of events on a logarithmic
// scale. Dragging chooses a time, a click that of a cell.

import { packed } from "./colours.ts";
import type { Recording } from "./data.ts";
import { Canvas, colour, make, type Tip } from "./dom.ts";
import { Kept } from "./kept.ts";
import type { HeatMap } from "./latencies.ts";
import { BOTTOM, DRAG_PX, LEFT, type Range, RIGHT, TimeScale } from "./time_scale.ts";
import { clockTime, counted, duration } from "./words.ts";

const TOP = 8;
const ROW = [4, 14] as const;
const TALLEST = 300;
/** Colours from few to many. */
const SHADES = 256;
/** The darkest colours of the scale cannot be distinguished from dark paper. */
const ON_DARK = 6;

export class HeatMapView {
  readonly element = make("div", { class: "heatmap" });
  private readonly canvas: Canvas;
  private readonly scale: TimeScale;
  private readonly status = make("p", { class: "status", role: "status" });
  private readonly legend = make("p", { class: "note heatlegend" });
  private map: HeatMap | null = null;
  /** Counts the maps. */
  private drawn = 0;
  private readonly picture = new Kept<HTMLCanvasElement>(1);
  private chosen: Range | null = null;
  private drag: Range | null = null;
  /** Column and row that the keyboard has selected. */
  private current: [number, number] | null = null;

  constructor(
    private readonly of: Recording,
    private readonly tip: Tip,
    private readonly chooseTime: (range: Range | null) => void,
  ) {
    this.canvas = new Canvas("Latencies over time. Arrow keys move from cell to cell, Enter selects its time, Escape clears it.", "group", () => this.paint());
    this.scale = new TimeScale(of, () => this.canvas.width);
    this.element.append(this.canvas.element, this.legend, this.status);
    this.canvas.element.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.element.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.element.addEventListener("pointerup", (event) => this.end(event));
    this.canvas.element.addEventListener("pointercancel", () => this.stop());
    this.canvas.element.addEventListener("pointerleave", () => this.tip.hide());
    this.canvas.element.addEventListener("keydown", (event) => this.key(event));
  }

  draw(map: HeatMap | null, chosen: Range | null): void {
    if (map !== this.map) this.drawn++;
    this.map = map;
    this.chosen = chosen;
    this.current = null;
    this.element.hidden = !map;
    this.say();
    this.paint();
  }

  private get row(): number {
    const rows = this.map!.powers * this.map!.perPower;
    return Math.min(ROW[1], Math.max(ROW[0], Math.floor(TALLEST / rows)));
  }

  private get bottom(): number {
    return TOP + this.row * this.map!.powers * this.map!.perPower;
  }

  /** Where a column begins, within what was recorded. */
  private left(column: number): number {
    const [from, to] = this.scale.period;
    return this.scale.x(Math.min(to, Math.max(from, this.map!.from_s + column * this.map!.width_s)));
  }

  /** From few to many: the highest counts stand out most, on light paper and on dark. */
  private get ramp(): string[] {
    const { heat } = this.of.palette;
    return matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches ? heat.slice(0, ON_DARK).toReversed() : heat;
  }

  private paint(): void {
    const { map } = this;
    if (!map) return;
    const context = this.canvas.cleared(this.bottom + BOTTOM);
    if (!context) return;
    const { width } = this.canvas;
    const ramp = this.ramp;
    this.drawLegend(ramp, map);
    context.font = "11px system-ui, sans-serif";
    this.axes(context, width, map);
    const { element } = this.canvas;
    // Not redrawn while a time is dragged.
    const picture = this.picture.get(`${this.drawn} ${element.width} ${element.height} ${ramp[0]}`, () => this.cells(map, ramp, element.width / width));
    context.drawImage(picture, 0, 0, width, element.height / (element.width / width));
    const range = this.drag ? this.scale.windows(...this.drag) : this.chosen;
    if (range) this.scale.frame(context, range, TOP, this.bottom);
    if (this.current) {
      const [column, row] = this.current;
      const left = this.left(column);
      context.strokeStyle = colour("accent");
      context.lineWidth = 2;
      context.strokeRect(left, this.bottom - (row + 1) * this.row, Math.max(3, this.left(column + 1) - left), this.row);
    }
  }

  /** The cells, in device pixels. */
  private cells(map: HeatMap, ramp: string[], ratio: number): HTMLCanvasElement {
    const { width, height } = this.canvas.element;
    const picture = make("canvas", { width: String(width), height: String(height) });
    const context = picture.getContext("2d")!;
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const shades = Array.from({ length: SHADES }, (_, shade) => packed(between(ramp, shade / (SHADES - 1))));
    const rows = map.powers * map.perPower;
    const lines = Math.round(this.row * ratio);
    const bounds = Array.from({ length: map.columns + 1 }, (_, column) => Math.round(this.left(column) * ratio));
    for (let row = 0; row < rows; row++) {
      const begin = Math.round((this.bottom - (row + 1) * this.row) * ratio) * width;
      for (let column = 0; column < map.columns; column++) {
        const count = map.count[column * rows + row]!;
        if (count === 0) continue;
        const [left, right] = [bounds[column]!, bounds[column + 1]!];
        const gap = right - left >= 8 * ratio ? 1 : 0;
        const part = map.largest > 1 ? Math.log(Math.max(1, count)) / Math.log(map.largest) : 1;
        pixels.fill(shades[Math.round(part * (SHADES - 1))]!, begin + left, begin + Math.max(left + 1, right - gap));
      }
      for (let line = 1; line < lines; line++) pixels.copyWithin(begin + line * width, begin, begin + width);
    }
    context.putImageData(image, 0, 0);
    return picture;
  }

  private axes(context: CanvasRenderingContext2D, width: number, map: HeatMap): void {
    const power = this.row * map.perPower;
    const each = Math.ceil(16 / power);
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (let n = 0; n <= map.powers; n++) {
      const y = this.bottom - n * power;
      context.fillStyle = colour("line");
      context.fillRect(LEFT, y, width - LEFT - RIGHT, 1);
      context.fillStyle = colour("ink");
      if (n % each === 0) context.fillText(powerLabel(map.lowest + n), LEFT - 4, y);
    }
    this.scale.hatchGaps(context, TOP, this.bottom);
    this.scale.drawAxis(context, this.bottom);
  }

  private drawLegend(ramp: string[], map: HeatMap): void {
    const scale = make("i", { "aria-hidden": "true" });
    scale.style.background = `linear-gradient(to right, ${ramp.join(", ")})`;
    this.legend.replaceChildren("1 event ", scale, ` ${map.largest.toLocaleString("en")} in ${counted(map.width_s, "second")}; blank: none. Labels are powers of two: 1 ms stands for 1024 us.`);
  }

  private cellAt(event: PointerEvent): [number, number] {
    const map = this.map!;
    return [Math.floor((this.scale.secondAt(event.offsetX) - map.from_s) / map.width_s), Math.floor((this.bottom - event.offsetY) / this.row)];
  }

  private wordsOf([column, row]: [number, number]): string[] {
    const map = this.map!;
    const rows = map.powers * map.perPower;
    const cell = row >= 0 && row < rows ? column * rows + row : -1;
    const count = map.count[cell] ?? 0;
    const bound = (at: number) => duration(Math.round(1000 * 2 ** (map.lowest + at / map.perPower)));
    const lines = [`${clockTime(this.of, map.from_s + column * map.width_s)}, ${bound(row)} to ${bound(row + 1)}`];
    if (count > 0) lines.push(`${counted(count, "event")}, ${duration(map.sum[cell]!)} in all, the longest ${duration(map.max[cell]!)}`);
    else lines.push("no event");
    return lines;
  }

  private say(): void {
    this.status.textContent = this.current ? `${this.wordsOf(this.current).join(": ")}.` : "";
  }

  private begin(event: PointerEvent): void {
    if (event.button !== 0) return;
    const second = this.scale.secondAt(event.offsetX);
    this.drag = [second, second];
    this.canvas.element.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    if (!this.map) return;
    if (!this.drag) return this.tip.show(event, this.wordsOf(this.cellAt(event)));
    this.drag[1] = this.scale.secondAt(event.offsetX);
    const [from, to] = this.scale.windows(...this.drag);
    this.tip.show(event, [`${clockTime(this.of, from)} to ${clockTime(this.of, to)}`]);
    this.paint();
  }

  private end(event: PointerEvent): void {
    const { drag, map } = this;
    this.stop();
    if (!drag || !map) return;
    if (Math.abs(this.scale.x(drag[0]) - this.scale.x(drag[1])) >= DRAG_PX) return this.chooseTime(this.scale.windows(...drag));
    const [column, row] = this.cellAt(event);
    const isInside = event.offsetX >= LEFT && event.offsetX < this.canvas.width - RIGHT && row >= 0 && row < map.powers * map.perPower;
    if (isInside) this.chooseColumn(column);
  }

  /** Chooses the time of a column. */
  private chooseColumn(column: number): void {
    const { from_s, width_s } = this.map!;
    this.chooseTime(this.scale.windows(from_s + column * width_s, from_s + (column + 1) * width_s));
  }

  private stop(): void {
    this.drag = null;
    this.tip.hide();
    this.paint();
  }

  private key(event: KeyboardEvent): void {
    const { map } = this;
    if (!map) return;
    if (event.key === "Escape" && this.chosen) this.chooseTime(null);
    else if (event.key === "Enter" && this.current) this.chooseColumn(this.current[0]);
    else {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!step) return;
      const rows = map.powers * map.perPower;
      const [column, row] = this.current ?? [-step[0]! + (step[0]! < 0 ? map.columns - 1 : 0), 0];
      this.current = [Math.min(map.columns - 1, Math.max(0, column + step[0]!)), Math.min(rows - 1, Math.max(0, row + step[1]!))];
      this.say();
      this.paint();
    }
    event.preventDefault();
  }
}

/** A power of two in microseconds; 1024 us is labelled 1 ms. */
function powerLabel(power: number): string {
  if (power < 0) return `${Math.round(1000 * 2 ** power)} ns`;
  if (power < 10) return `${2 ** power} us`;
  return power < 20 ? `${2 ** (power - 10)} ms` : `${2 ** (power - 20)} s`;
}

/** Red, green or blue of a colour that is written #rrggbb. */
function channel(written: string, n: number): number {
  return Number.parseInt(written.slice(1 + 2 * n, 3 + 2 * n), 16);
}

/** The colour at a part of the way through a list of colours. */
function between(ramp: string[], part: number): string {
  const place = Math.min(1, Math.max(0, part)) * (ramp.length - 1);
  const at = Math.min(Math.floor(place), ramp.length - 2);
  const mixed = [0, 1, 2].map((n) => Math.round(channel(ramp[at]!, n) + (channel(ramp[at + 1]!, n) - channel(ramp[at]!, n)) * (place - at)));
  return `rgb(${mixed.join(",")})`;
}
