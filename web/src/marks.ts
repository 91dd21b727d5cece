// Marks on the timeline: checkpoints and autovacuum work as bars above it, a note as a line through it. A click, or the list below, chooses
// the time of one.

import { button, make } from "./dom.ts";
import type { Mark, Recording } from "./data.ts";
import { type Range, TimeScale } from "./time_scale.ts";
import { clockTime, oneLine } from "./words.ts";

/** Where the bars of a kind begin, and how high they are. */
const ROWS: Record<Mark["kind"], number> = { checkpoint: 2, autovacuum: 9, note: 2 };
const HIGH = 5;
/** Room for them above the picture. */
export const MARKS = 18;
/** Maximum number listed: the others are only in the picture. */
const LISTED = 20;
/** Pixels beside a mark that count as part of it. */
const NEAR_PX = 3;

/** What a mark is, in words. */
export function wordsOf(of: Recording, mark: Mark): string {
  const begin = clockTime(of, mark.from_us / 1e6);
  const time = mark.to_us > mark.from_us ? `${begin} to ${clockTime(of, mark.to_us / 1e6)}` : begin;
  return [mark.kind, time, oneLine(mark.text)].filter((text) => text !== "").join(" ");
}

/** The time that it stands for, in whole windows. */
export function timeOf(scale: TimeScale, mark: Mark): Range {
  return scale.windows(mark.from_us / 1e6, Math.max(mark.from_us + 1, mark.to_us) / 1e6);
}

export function paintMarks(context: CanvasRenderingContext2D, of: Recording, scale: TimeScale, bottom: number): void {
  for (const mark of of.marks) {
    const left = scale.x(mark.from_us / 1e6);
    context.fillStyle = mark.colour;
    if (mark.kind === "note") context.fillRect(left, ROWS.note, 1.5, bottom - ROWS.note);
    else context.fillRect(left, ROWS[mark.kind], Math.max(2, scale.x(mark.to_us / 1e6) - left), HIGH);
  }
}

/** The mark at a place of the picture, above the bars. */
export function markAt(of: Recording, scale: TimeScale, x: number, y: number): Mark | null {
  if (y >= MARKS) return null;
  const isAt = (mark: Mark) => x >= scale.x(mark.from_us / 1e6) - NEAR_PX && x <= scale.x(mark.to_us / 1e6) + NEAR_PX;
  const there = of.marks.filter(isAt);
  return there.find((mark) => mark.kind === "note" || Math.abs(y - ROWS[mark.kind] - HIGH / 2) <= HIGH) ?? there[0] ?? null;
}

/** All of them, or the first, to be chosen without a picture. */
export function listOfMarks(of: Recording, choose: (mark: Mark) => void): HTMLElement[] {
  if (of.marks.length === 0) return [];
  const lines = of.marks.slice(0, LISTED).map((mark) => {
    const swatch = make("i", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = mark.colour;
    const line = button(wordsOf(of, mark), { "aria-label": `Only the time of ${wordsOf(of, mark)}` }, () => choose(mark));
    line.prepend(swatch);
    return make("li", {}, line);
  });
  if (of.marks.length > LISTED) lines.push(make("li", {}, `${of.marks.length - LISTED} more in the chart`));
  return lines;
}
