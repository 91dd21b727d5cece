// Look of the frames in a differential flame graph: red if BAD has more time in the frame itself, blue if it has less, stronger for larger
// changes; and marked, so that nobody has to rely on colours.

import * as colours from "./colours.ts";
import { amountOf, type Difference, type Side, signedOf } from "./difference.ts";
import type { Flame } from "./flame.ts";
import type { Look } from "./flame_view.ts";

/** Red, blue, and neither. */
const MORE = [197, 38, 38] as const;
const LESS = [33, 102, 190] as const;
const SAME = [232, 232, 228] as const;
/** Changes of the frame itself below this part of DB time have no mark. */
const LEAST_MARKED = 0.005;

export class DifferenceLook implements Look {
  /** The flame graph that was drawn last. */
  private flame: Flame | null = null;
  private largest = 0;

  constructor(
    private readonly of: Difference,
    /** Which side determines the widths. */
    private readonly widths: () => Side,
  ) {}

  mark(flame: Flame, frame: number): string {
    const change = this.ownChange(flame, frame);
    if (Math.abs(change) < LEAST_MARKED * Math.max(flame.ns[0]!, flame.other[0]!)) return "";
    return change > 0 ? "▲ " : "▼ ";
  }

  words(flame: Flame, frame: number): string[] {
    const [good, bad] = this.inOrder(flame.ns[frame]!, flame.other[frame]!);
    const [ownGood, ownBad] = this.inOrder(flame.own[0][frame]!, flame.own[1][frame]!);
    const lines = [`GOOD ${this.amount(good)}, BAD ${this.amount(bad)} per ${this.of.diff.per}: ${signedOf(this.of, this.perUnit(bad - good))}`];
    if (ownGood > 0 || ownBad > 0) lines.push(`in itself GOOD ${this.amount(ownGood)}, BAD ${this.amount(ownBad)}: ${signedOf(this.of, this.perUnit(ownBad - ownGood))}`);
    return lines;
  }

  colour(flame: Flame, frame: number): number {
    if (this.flame !== flame) {
      this.flame = flame;
      this.largest = 0;
      for (let each = 0; each < flame.count; each++) this.largest = Math.max(this.largest, Math.abs(this.ownChange(flame, each)));
    }
    const change = this.ownChange(flame, frame);
    const part = this.largest > 0 ? Math.sqrt(Math.abs(change) / this.largest) : 0;
    const to = change > 0 ? MORE : LESS;
    return colours.packed(`rgb(${SAME.map((from, at) => Math.round(from + (to[at]! - from) * part)).join(",")})`);
  }

  total(flame: Flame): string {
    const [good, bad] = this.inOrder(flame.ns[0]!, flame.other[0]!);
    return `GOOD ${this.amount(good)}, BAD ${this.amount(bad)} per ${this.of.diff.per}`;
  }

  amount(ns: number): string {
    return amountOf(this.of, this.perUnit(ns));
  }

  /** Both sides are scaled to the work of GOOD. */
  private perUnit(ns: number): number {
    return ns / this.of.diff.good.work;
  }

  private inOrder(width: number, other: number): [number, number] {
    return this.widths() === "bad" ? [other, width] : [width, other];
  }

  private ownChange(flame: Flame, frame: number): number {
    const [good, bad] = this.inOrder(flame.own[0][frame]!, flame.own[1][frame]!);
    return bad - good;
  }
}
