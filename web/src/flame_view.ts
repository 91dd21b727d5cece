// The flame graph on a canvas: only what can be seen is drawn, however many frames there are.

import * as colours from "./colours.ts";
import type { FlameSource } from "./data.ts";
import { Canvas, colour, make, type Tip } from "./dom.ts";
import type { Dimension } from "./filter.ts";
import { type Flame, found, frameAt } from "./flame.ts";
import { statementLabel } from "./timeline.ts";
import type { Zoom } from "./view.ts";
import { amount, oneLine, percent, shown } from "./words.ts";

const ROW = 18;
/** Room for a letter, of the font below. */
const LETTER_PX = 6.6;
const FONT = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
/** Maximum height: a taller graph scrolls inside the page. */
const TALLEST = 640;

/** How frames are shown in a comparison: by what differs between two sides. */
export interface Look {
  /** Precedes the name: visible without colours. */
  mark(flame: Flame, frame: number): string;
  words(flame: Flame, frame: number): string[];
  colour(flame: Flame, frame: number): number;
  /** The whole. */
  total(flame: Flame): string;
  /** An amount of time, in the widths of this side. */
  amount(ns: number): string;
}

export class FlameView {
  readonly element = make("div", { class: "flame" });
  /** What is drawn, in words. */
  readonly status = make("p", { class: "status", role: "status" });
  private readonly canvas: Canvas;
  private readonly box = make("div", { class: "flamebox" });
  private flame: Flame | null = null;
  private isIcicle = true;
  private search = "";
  private is: Uint8Array | null = null;
  private foundNs = 0;
  /** The visible part of the width: its begin and its length, in nanoseconds. */
  private from = 0;
  private span = 0;
  private current = -1;
  /** The root is to be scrolled to, once there is something to scroll. */
  private isRootWanted = false;
  /** Colours of functions, computed on demand; 0 = not yet. */
  private readonly ofFunction: Uint32Array;
  /** What is drawn, without the names: filled line by line, which is far faster than rectangles. */
  private pixels: ImageData | null = null;

  constructor(
    private readonly of: FlameSource,
    private readonly tip: Tip,
    /** Without it a click zooms. */
    private readonly choose: ((dimension: Dimension, word: string) => void) | null,
    private readonly whyEmpty: () => string,
    /** Is called when the zoom changes; of quick successive changes only the last needs to be kept. */
    private readonly zoomed: (zoom: Zoom | null, isQuick: boolean) => void,
    private readonly look: Look | null = null,
  ) {
    this.ofFunction = new Uint32Array(of.functions.length);
    this.canvas = new Canvas(
      "Flame graph. Arrow keys move from frame to frame, Enter selects one, Z zooms to it, Escape shows all.",
      "img",
      () => this.paint(),
    );
    this.box.append(this.canvas.element);
    this.element.append(this.status, this.box);
    this.canvas.element.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.element.addEventListener("pointerleave", () => this.tip.hide());
    this.canvas.element.addEventListener("click", (event) => {
      const frame = this.frameUnder(event);
      if (frame < 0) return;
      if (event.shiftKey || event.altKey) this.zoom(frame);
      else this.pick(frame);
    });
    this.canvas.element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.element.addEventListener("keydown", (event) => this.key(event));
  }

  draw(flame: Flame, isIcicle: boolean, zoom: Zoom | null, search: string): void {
    // A root at the top is visible; a view that was scrolled stays where it is as long as the graph is the same.
    this.isRootWanted ||= isIcicle ? !this.isIcicle : this.isIcicle || flame !== this.flame;
    this.flame = flame;
    this.isIcicle = isIcicle;
    this.search = search;
    this.current = -1;
    // A zoom outside of the graph (the link is for another page) shows all of it.
    const isInside = zoom !== null && zoom.from + zoom.span <= flame.total;
    this.from = isInside ? zoom.from : 0;
    this.span = isInside ? zoom.span : flame.total;
    this.searchAndPaint();
  }

  /** Highlights frames with this text in their names. */
  find(search: string): void {
    this.search = search;
    this.searchAndPaint();
  }

  /** Draws and says how long it took, in milliseconds. */
  measure(): number {
    const begin = performance.now();
    this.paint();
    return performance.now() - begin;
  }

  /** How many frames there are. */
  get count(): number {
    return this.flame?.count ?? 0;
  }

  private searchAndPaint(): void {
    const flame = this.flame;
    if (flame && this.search !== "") {
      const match = found(this.of, flame, this.search);
      this.is = match.is;
      this.foundNs = match.ns;
    } else this.is = null;
    this.say();
    this.paint();
  }

  private say(): void {
    const flame = this.flame;
    if (!flame || flame.total === 0) {
      this.status.textContent = this.whyEmpty();
      this.status.classList.add("empty");
      return;
    }
    this.status.classList.remove("empty");
    const parts = [`${this.look?.total(flame) ?? amount(this.of, flame.total)} in ${(flame.count - 1).toLocaleString("en")} frames`];
    if (this.span < flame.total) parts.push(`zoomed: ${percent(this.span, flame.total)} % of the width (Escape shows all)`);
    if (this.is) parts.push(`“${shown(this.search)}” is in ${this.look?.amount(this.foundNs) ?? amount(this.of, this.foundNs)}, ${percent(this.foundNs, flame.total) || "0.0"} %`);
    if (this.current >= 0) parts.push(this.words(this.current).join(", "));
    this.status.textContent = `${parts.join(" · ")}.`;
  }

  private name(frame: number): string {
    const flame = this.flame!;
    const value = flame.value[frame]!;
    switch (flame.kinds[flame.kind[frame]!]!) {
      case "all":
        return "all";
      case "wait":
        return this.of.waits[value]!.label;
      case "state":
        return this.of.states[value]!;
      case "query":
        return statementLabel(this.of, value);
      default:
        return this.of.functions[value]!;
    }
  }

  private words(frame: number): string[] {
    const flame = this.flame!;
    const kind = flame.kinds[flame.kind[frame]!]!;
    const module = kind === "function" ? this.of.names_of_modules[this.of.modules[flame.value[frame]!]!]! : "";
    const lines = [oneLine(this.name(frame)).slice(0, 300) + (module === "" ? "" : ` (${oneLine(module)})`)];
    if (this.look) return [...lines, ...this.look.words(flame, frame)];
    lines.push(`${amount(this.of, flame.ns[frame]!)}, ${percent(flame.ns[frame]!, flame.total)} %`);
    const samples = flame.samples[frame]!;
    lines.push(samples > 0 ? `${samples.toLocaleString("en")} samples` : "no samples of its own: exact, or pooled");
    return lines;
  }

  private colourOf(frame: number): number {
    const flame = this.flame!;
    if (this.look) return this.look.colour(flame, frame);
    const value = flame.value[frame]!;
    switch (flame.kinds[flame.kind[frame]!]!) {
      case "all":
        return colours.packed("#d8d8d8");
      case "wait":
        return colours.packed(colours.ofWait(this.of, this.of.waits[value]!.label) ?? "#b9c3ee");
      case "state":
        return colours.packed(colours.ofState(this.of, this.of.states[value]!));
      case "query":
        return colours.packed("#b9c3ee");
      default:
        this.ofFunction[value] ||= colours.packed(colours.ofFunction(this.of.functions[value]!, this.of.kernel[value] === 1));
        return this.ofFunction[value]!;
    }
  }

  private y(depth: number): number {
    return this.isIcicle ? depth * ROW : ((this.flame?.rows.length ?? 0) - 1 - depth) * ROW;
  }

  private paint(): void {
    const flame = this.flame;
    this.canvas.element.hidden = !flame || flame.total === 0;
    if (!flame || flame.total === 0) return;
    this.box.style.maxHeight = `${TALLEST}px`;
    const context = this.canvas.cleared(flame.rows.length * ROW);
    if (!context) return;
    if (this.isRootWanted) this.box.scrollTop = this.isIcicle ? 0 : this.box.scrollHeight;
    this.isRootWanted = false;
    const { width } = this.canvas;
    const names = this.fill(flame, context, width);
    context.font = FONT;
    context.textBaseline = "middle";
    for (const { frame, left, right, ink } of names) {
      const y = this.y(flame.depth[frame]!);
      const room = Math.floor((right - left - 6) / LETTER_PX);
      const name = (this.look?.mark(flame, frame) ?? "") + oneLine(this.name(frame));
      context.fillStyle = ink;
      context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, left + 3, y + ROW / 2);
    }
    if (this.current < 0) return;
    const px = width / this.span;
    const left = (flame.from[this.current]! - this.from) * px;
    context.strokeStyle = colour("accent");
    context.lineWidth = 2;
    context.strokeRect(left + 1, this.y(flame.depth[this.current]!) + 1, Math.max(1, flame.ns[this.current]! * px - 2), ROW - 3);
  }

  /** Fills the visible frames, and returns those with room for a name. */
  private fill(flame: Flame, context: CanvasRenderingContext2D, width: number): { frame: number; left: number; right: number; ink: string }[] {
    const names = [];
    const { width: across, height: down } = this.canvas.element;
    if (this.pixels?.width !== across || this.pixels.height !== down) this.pixels = context.createImageData(across, down);
    const pixels = new Uint32Array(this.pixels.data.buffer).fill(0);
    const ratio = across / width;
    const px = width / this.span;
    const lines = Math.round((ROW - 1) * ratio);
    const faint = colours.packed(colour("faint"));
    const pale = colour("pale");
    for (const [depth, row] of flame.rows.entries()) {
      const begin = Math.round(this.y(depth) * ratio) * across;
      for (let at = firstFrom(flame, row, this.from); at < row.length; at++) {
        const frame = row[at]!;
        const left = Math.max(0, (flame.from[frame]! - this.from) * px);
        if (left >= width) break;
        const right = Math.min(width, (flame.from[frame]! + flame.ns[frame]! - this.from) * px);
        const isFound = !this.is || this.is[frame] === 1;
        const fill = isFound ? this.colourOf(frame) : faint;
        const first = Math.floor(left * ratio);
        const end = Math.floor((right - (right - left > 3 ? 1 : 0)) * ratio);
        if (end > first + 1) pixels.fill(fill, begin + first, begin + Math.min(across, end));
        // Of frames that share a pixel, one is visible: a match, or the first.
        else if (pixels[begin + first] === 0 || (this.is && isFound)) pixels[begin + first] = fill;
        if (end <= first + 1 && !this.is) at = firstFrom(flame, row, this.from + (first + 1) / ratio / px, at + 1) - 1;
        if (right - left > 6 + 3 * LETTER_PX) names.push({ frame, left, right, ink: isFound ? colours.inkOn(fill) : pale });
      }
      for (let line = 1; line < lines; line++) pixels.copyWithin(begin + line * across, begin, begin + across);
    }
    context.putImageData(this.pixels, 0, 0);
    return names;
  }

  private frameUnder(event: MouseEvent): number {
    const flame = this.flame;
    if (!flame) return -1;
    const row = Math.floor(event.offsetY / ROW);
    const depth = this.isIcicle ? row : flame.rows.length - 1 - row;
    return frameAt(flame, this.from + (event.offsetX / Math.max(1, this.canvas.width)) * this.span, depth);
  }

  private hover(event: MouseEvent): void {
    const frame = this.frameUnder(event);
    this.canvas.element.style.cursor = frame >= 0 ? "pointer" : "default";
    if (frame < 0) return this.tip.hide();
    this.tip.show(event, [...this.words(frame), frame === 0 ? "click: show all" : this.choose ? "click: only this; with Shift: zoom" : "click: zoom"]);
  }

  /** Makes the frame a filter; the root shows all. */
  private pick(frame: number): void {
    const flame = this.flame!;
    const value = flame.value[frame]!;
    this.tip.hide();
    if (!this.choose) return this.zoom(frame);
    switch (flame.kinds[flame.kind[frame]!]!) {
      case "all":
        return this.show(0, flame.total);
      case "wait":
        return this.choose("wait", this.of.waits[value]!.label);
      case "state":
        return this.choose("state", this.of.states[value]!);
      case "query":
        return this.choose("query", this.of.statements[value]!.query);
      default:
        return this.choose("function", this.of.functions[value]!);
    }
  }

  private zoom(frame: number): void {
    this.show(this.flame!.from[frame]!, this.flame!.ns[frame]!);
  }

  /** Shows a part of the width, in whole nanoseconds: what is drawn is what the address says. */
  private show(from: number, span: number, isQuick = false): void {
    const { total } = this.flame!;
    this.span = Math.min(total, Math.max(1, Math.round(span)));
    this.from = Math.min(total - this.span, Math.max(0, Math.round(from)));
    this.say();
    this.paint();
    this.zoomed(this.span < total ? { from: this.from, span: this.span } : null, isQuick);
  }

  private wheel(event: WheelEvent): void {
    const flame = this.flame;
    // Without a key the wheel scrolls the page, as everywhere.
    if (!flame || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const part = event.offsetX / Math.max(1, this.canvas.width);
    const span = Math.min(flame.total, Math.max(flame.total / 1e7, this.span * 1.0015 ** event.deltaY));
    this.show(this.from + part * (this.span - span), span, true);
  }

  private key(event: KeyboardEvent): void {
    const flame = this.flame;
    if (!flame || flame.total === 0) return;
    this.tip.hide();
    const at = this.current;
    const row = at >= 0 ? flame.rows[flame.depth[at]!]! : null;
    const place = row ? row.indexOf(at) : -1;
    const inward = this.isIcicle ? "ArrowDown" : "ArrowUp";
    const outward = this.isIcicle ? "ArrowUp" : "ArrowDown";
    let next = at;
    if (event.key === "Escape" && (this.span < flame.total || at >= 0)) {
      this.current = -1;
      this.show(0, flame.total);
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && at >= 0) return this.pick(at);
    if (event.key === "z" && at >= 0) return this.zoom(at);
    if (at < 0 && event.key.startsWith("Arrow")) next = 0;
    else if (event.key === outward) next = Math.max(0, flame.caller[at]!);
    else if (event.key === inward) next = Math.max(at, frameAt(flame, flame.from[at]!, flame.depth[at]! + 1));
    else if (event.key === "ArrowLeft" && place > 0) next = row![place - 1]!;
    else if (event.key === "ArrowRight" && row && place < row.length - 1) next = row[place + 1]!;
    else return;
    event.preventDefault();
    this.current = next;
    this.say();
    this.paint();
  }
}

/** The first frame of a row that reaches beyond a place. */
function firstFrom(flame: Flame, row: Uint32Array, from: number, least = 0): number {
  let low = least;
  let high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const frame = row[middle]!;
    if (flame.from[frame]! + flame.ns[frame]! <= from) low = middle + 1;
    else high = middle;
  }
  return low;
}
