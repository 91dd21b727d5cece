// Time from left to right, the same in every picture, so that pictures line up.

import { colour } from "./dom.ts";
import type { Recording } from "./data.ts";
import { clockTime } from "./words.ts";

/** Room for labels at the left, and at the right. */
export const LEFT = 50;
export const RIGHT = 10;
/** Room for the axis. */
export const BOTTOM = 24;
/** A shorter movement of the pointer is a click. */
export const DRAG_PX = 5;
const STEPS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

/** A time in seconds. */
export type Range = [number, number];

export class TimeScale {
  constructor(
    private readonly of: Recording,
    /** Width of the picture, in pixels. */
    private readonly width: () => number,
  ) {}

  /** All that was recorded. */
  get period(): Range {
    return [this.of.from_us / 1e6, this.of.to_us / 1e6];
  }

  x(second: number): number {
    const [from, to] = this.period;
    return LEFT + ((second - from) / (to - from)) * (this.width() - LEFT - RIGHT);
  }

  secondAt(x: number): number {
    const [from, to] = this.period;
    const part = (x - LEFT) / Math.max(1, this.width() - LEFT - RIGHT);
    return from + Math.min(1, Math.max(0, part)) * (to - from);
  }

  /** Extends a time to whole windows of the cells. */
  windows(one: number, other: number): Range {
    const { width_s } = this.of.times;
    const from = Math.floor(Math.min(one, other) / width_s) * width_s;
    return [from, Math.max(from + width_s, Math.ceil(Math.max(one, other) / width_s) * width_s)];
  }

  /** Times of day, as many as there is room for. */
  drawAxis(context: CanvasRenderingContext2D, bottom: number): void {
    const width = this.width();
    const [from, to] = this.period;
    const px = (width - LEFT - RIGHT) / (to - from);
    const step = STEPS.find((seconds) => seconds * px >= 70) ?? Math.ceil(70 / px / 86_400) * 86_400;
    const origin = this.of.clock === "utc" ? 0 : this.of.start_us / 1e6;
    context.fillStyle = colour("pale");
    context.fillRect(LEFT, bottom, width - LEFT - RIGHT, 1);
    context.fillStyle = colour("ink");
    context.textAlign = "center";
    for (let number = Math.ceil((from - origin) / step); origin + number * step <= to; number++) {
      const second = origin + number * step;
      const x = this.x(second);
      context.fillRect(x, bottom, 1, 4);
      const text = clockTime(this.of, second);
      if (x > LEFT + 12 && x < width - 26) context.fillText(step % 60 === 0 && this.of.clock === "utc" ? text.slice(0, 5) : text, x, bottom + 13);
    }
    context.textAlign = "left";
    context.fillStyle = colour("pale");
    context.fillText(this.of.clock === "utc" ? "UTC" : "", 4, bottom + 13);
  }

  /** Marks the times in which nothing was recorded. */
  hatchGaps(context: CanvasRenderingContext2D, top: number, bottom: number): void {
    for (const gap of this.of.gaps) {
      const [left, right] = [this.x(gap[0] / 1e6), this.x(gap[1] / 1e6)];
      context.save();
      context.beginPath();
      context.rect(left, top, right - left, bottom - top);
      context.clip();
      context.strokeStyle = colour("line");
      context.lineWidth = 2;
      for (let x = left - (bottom - top); x < right; x += 8) {
        context.beginPath();
        context.moveTo(x, bottom);
        context.lineTo(x + bottom - top, top);
        context.stroke();
      }
      context.fillStyle = colour("pale");
      context.textAlign = "center";
      if (right - left > 100) context.fillText("nothing recorded", (left + right) / 2, (top + bottom) / 2);
      context.restore();
    }
  }

  /** Fades what is outside of a time, and frames it. */
  frame(context: CanvasRenderingContext2D, range: Range, top: number, bottom: number): void {
    const right_end = this.width() - RIGHT;
    const left = Math.min(right_end, Math.max(LEFT, this.x(range[0])));
    const right = Math.min(right_end, Math.max(LEFT, this.x(range[1])));
    context.save();
    context.globalAlpha = 0.72;
    context.fillStyle = colour("paper");
    context.fillRect(LEFT, top, left - LEFT, bottom - top);
    context.fillRect(right, top, right_end - right, bottom - top);
    context.restore();
    context.strokeStyle = colour("accent");
    context.lineWidth = 1.5;
    context.strokeRect(left, top, Math.max(1, right - left), bottom - top);
  }
}
