// Distribution of latencies: buckets of a recording in, quantiles and a power-of-two histogram out. The same sums and the same places as in
// the report.

export interface Bucket {
  from_us: number;
  to_us: number;
  count: number;
  sum: number;
}

/** Middle of a bucket in nanoseconds; the upper bound is exclusive. */
export function middle([from, to]: readonly [number, number]): number {
  return Math.floor((from + Math.max(from, to - 1)) / 2);
}

/** A shown bucket: from and to in microseconds. */
export type Range = readonly [number, number];

/** 0 to 1 us, 1 to 2, 2 to 4 and so on. */
export function rangeOf(power: number): Range {
  return [power === 0 ? 0 : 2 ** (power - 1), 2 ** power];
}

/** The shown bucket that a recorded one is in. */
export function powerOf(bounds: readonly [number, number]): number {
  const us = Math.floor(middle(bounds) / 1000);
  return us < 1 ? 0 : Math.floor(Math.log2(us)) + 1;
}

/** As text: 4096 to 8192 us. */
export function rangeWords([from, to]: Range): string {
  return `${from} to ${to} us`;
}

export class Histogram {
  readonly count: number;
  readonly sum: number;
  readonly max: number;
  /** Quantiles that were computed: tables are sorted by them. */
  private readonly quantiles = new Map<number, number>();

  /** `bounds` are those of all buckets, in order; the columns have the numbers of those with events, each once, and what is in them. */
  constructor(
    private readonly bounds: readonly (readonly [number, number])[],
    private readonly buckets: Uint32Array,
    private readonly counts: Float64Array,
    private readonly sums: Float64Array,
    private readonly longest: Float64Array,
  ) {
    this.count = counts.reduce((all, count) => all + count, 0);
    this.sum = sums.reduce((all, sum) => all + sum, 0);
    this.max = longest.reduce((most, max) => Math.max(most, max), 0);
  }

  /** The histogram of all events of these. */
  static of(parts: readonly Histogram[]): Histogram {
    const bounds = parts[0]?.bounds ?? [];
    const [counts, sums, longest] = [new Float64Array(bounds.length), new Float64Array(bounds.length), new Float64Array(bounds.length)];
    for (const part of parts) {
      for (let at = 0; at < part.buckets.length; at++) {
        const bucket = part.buckets[at]!;
        counts[bucket]! += part.counts[at]!;
        sums[bucket]! += part.sums[at]!;
        if (part.longest[at]! > longest[bucket]!) longest[bucket] = part.longest[at]!;
      }
    }
    const buckets = Uint32Array.from(counts.keys()).filter((bucket) => counts[bucket]! > 0);
    const [ofCounts, ofSums, ofLongest] = [counts, sums, longest].map((column) => Float64Array.from(buckets, (bucket) => column[bucket]!)) as [Float64Array, Float64Array, Float64Array];
    return new Histogram(bounds, buckets, ofCounts, ofSums, ofLongest);
  }

  get mean(): number {
    return this.count > 0 ? Math.floor(this.sum / this.count) : 0;
  }

  /** What a fraction q of the events does not exceed: the middle of its bucket, and never more than the longest there. */
  quantile(q: number): number {
    const known = this.quantiles.get(q) ?? this.found(q);
    this.quantiles.set(q, known);
    return known;
  }

  private found(q: number): number {
    const rank = Math.min(this.count, Math.max(1, Math.ceil(q * this.count)));
    if (rank === this.count) return this.max;
    let seen = 0;
    for (let at = 0; at < this.buckets.length; at++) {
      seen += this.counts[at]!;
      if (seen >= rank) return Math.min(middle(this.bounds[this.buckets[at]!]!), this.longest[at]!);
    }
    return this.max;
  }

  /** Only the events in a range. */
  within([, to]: Range): Histogram {
    const isIn = this.buckets.map((bucket) => (2 ** powerOf(this.bounds[bucket]!) === to ? 1 : 0));
    const part = <T extends Uint32Array | Float64Array>(column: T) => column.filter((_, at) => isIn[at] === 1) as T;
    return new Histogram(this.bounds, part(this.buckets), part(this.counts), part(this.sums), part(this.longest));
  }

  /** 0 to 1 us, 1 to 2, 2 to 4 and so on, without gaps from the first bucket that has events to the last. */
  powersOfTwo(): Bucket[] {
    const shown = new Map<number, { count: number; sum: number }>();
    for (let at = 0; at < this.buckets.length; at++) {
      const [bucket, count, sum] = [this.buckets[at]!, this.counts[at]!, this.sums[at]!];
      const power = powerOf(this.bounds[bucket]!);
      const before = shown.get(power) ?? { count: 0, sum: 0 };
      shown.set(power, { count: before.count + count, sum: before.sum + sum });
    }
    const powers = [...shown.keys()];
    if (powers.length === 0) return [];
    const [first, last] = [Math.min(...powers), Math.max(...powers)];
    return Array.from({ length: last - first + 1 }, (_, at) => {
      const power = first + at;
      const [from_us, to_us] = rangeOf(power);
      return { from_us, to_us, ...(shown.get(power) ?? { count: 0, sum: 0 }) };
    });
  }
}
