// The frames of a flame graph being built: added in the order in which they are drawn, callers before callees.

import type { Flame, Kind } from "./flame.ts";
import { NO_NODE } from "./paths.ts";

/** Initial room for frames. */
const FEW = 4096;

type Column = Float64Array | Uint32Array | Int32Array | Uint16Array | Uint8Array;

export class Frames {
  private count = 0;
  private kind = new Uint8Array(FEW);
  private value = new Uint32Array(FEW);
  private caller = new Int32Array(FEW);
  private depth = new Uint16Array(FEW);
  private ns = new Float64Array(FEW);
  private samples = new Float64Array(FEW);
  private other: Float64Array;

  /** Starts with the root. */
  constructor(
    private readonly kinds: Kind[],
    private readonly isComparison: boolean,
  ) {
    this.other = new Float64Array(isComparison ? FEW : 0);
    this.add(0, 0, NO_NODE);
  }

  /** Adds a frame without time; returns its number. */
  add(kind: number, value: number, caller: number): number {
    const frame = this.count++;
    if (frame === this.kind.length) this.grow();
    this.kind[frame] = kind;
    this.value[frame] = value;
    this.caller[frame] = caller;
    this.depth[frame] = caller === NO_NODE ? 0 : this.depth[caller]! + 1;
    return frame;
  }

  /** Adds to a frame's own time. */
  give(frame: number, ns: number, samples: number, other: number): void {
    this.ns[frame]! += ns;
    this.samples[frame]! += samples;
    if (this.isComparison) this.other[frame]! += other;
  }

  /** Adds callees up into their callers, and lays frames out side by side. */
  placed(): Flame {
    const { count } = this;
    const part = <T extends Column>(column: T) => column.subarray(0, count) as T;
    const [kind, value, caller, depth, ns, samples, other] = [part(this.kind), part(this.value), part(this.caller), part(this.depth), part(this.ns), part(this.samples), part(this.other)];
    const own: Flame["own"] = this.isComparison ? [ns.slice(), other.slice()] : [ns.subarray(0, 0), other];
    for (let frame = count - 1; frame > 0; frame--) {
      const below = caller[frame]!;
      ns[below]! += ns[frame]!;
      samples[below]! += samples[frame]!;
      if (this.isComparison) other[below]! += other[frame]!;
    }
    // The next one begins where the last one ended. What is only on the other side has no width here.
    const from = new Float64Array(count);
    const next = new Float64Array(count);
    const across: number[] = [];
    for (let frame = 0; frame < count; frame++) {
      if (ns[frame] === 0) continue;
      const below = caller[frame]!;
      if (below !== NO_NODE) {
        from[frame] = next[below]!;
        next[below]! += ns[frame]!;
      }
      next[frame] = from[frame]!;
      across[depth[frame]!] = (across[depth[frame]!] ?? 0) + 1;
    }
    const rows = across.map((length) => new Uint32Array(length));
    const ends = new Uint32Array(rows.length);
    for (let frame = 0; frame < count; frame++) {
      const at = depth[frame]!;
      if (ns[frame]! > 0) rows[at]![ends[at]!++] = frame;
    }
    return { count, total: ns[0]!, kinds: this.kinds, kind, value, caller, depth, ns, samples, other, own, from, rows };
  }

  private grow(): void {
    this.kind = twice(this.kind);
    this.value = twice(this.value);
    this.caller = twice(this.caller);
    this.depth = twice(this.depth);
    this.ns = twice(this.ns);
    this.samples = twice(this.samples);
    this.other = twice(this.other);
  }
}

/** A copy with twice the room. */
function twice<T extends Column>(column: T): T {
  const grown = new (column.constructor as new (length: number) => T)(column.length * 2);
  grown.set(column);
  return grown;
}
