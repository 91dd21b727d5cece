// Distribution of latencies: buckets of a recording in, quantiles and the histogram that people know out. The same sums and the same
// places as in the report.

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

export class Histogram {
  count = 0;
  sum = 0;
  max = 0;
  private readonly buckets = new Map<number, { count: number; sum: number; max: number }>();
  /** Quantiles that were asked for: tables are sorted by them. */
  private readonly quantiles = new Map<number, number>();

  /** `bounds` are those of the buckets, by number. */
  constructor(private readonly bounds: readonly (readonly [number, number])[]) {}

  add(bucket: number, count: number, sum: number, max: number): void {
    this.quantiles.clear();
    let of = this.buckets.get(bucket);
    if (!of) {
      of = { count: 0, sum: 0, max: 0 };
      this.buckets.set(bucket, of);
    }
    of.count += count;
    of.sum += sum;
    if (max > of.max) of.max = max;
    this.count += count;
    this.sum += sum;
    if (max > this.max) this.max = max;
  }

  /** Of all events of these. */
  static of(parts: readonly Histogram[]): Histogram {
    const all = new Histogram(parts[0]?.bounds ?? []);
    for (const part of parts) for (const [bucket, { count, sum, max }] of part.buckets) all.add(bucket, count, sum, max);
    return all;
  }

  get mean(): number {
    return this.count > 0 ? Math.floor(this.sum / this.count) : 0;
  }

  /** What the part q of the events does not exceed: the middle of the bucket in which it lies, and never more than the longest there. */
  quantile(q: number): number {
    const known = this.quantiles.get(q) ?? this.found(q);
    this.quantiles.set(q, known);
    return known;
  }

  private found(q: number): number {
    const rank = Math.min(this.count, Math.max(1, Math.ceil(q * this.count)));
    if (rank === this.count) return this.max;
    let seen = 0;
    for (const [bucket, of] of this.inOrder()) {
      seen += of.count;
      if (seen >= rank) return Math.min(middle(this.bounds[bucket]!), of.max);
    }
    return this.max;
  }

  /** 0 to 1 us, 1 to 2, 2 to 4 and so on, without gaps from the first bucket that has events to the last. */
  powersOfTwo(): Bucket[] {
    const shown = new Map<number, { count: number; sum: number }>();
    for (const [bucket, { count, sum }] of this.buckets) {
      const us = Math.floor(middle(this.bounds[bucket]!) / 1000);
      const power = us < 1 ? 0 : Math.floor(Math.log2(us)) + 1;
      const before = shown.get(power) ?? { count: 0, sum: 0 };
      shown.set(power, { count: before.count + count, sum: before.sum + sum });
    }
    const powers = [...shown.keys()];
    if (powers.length === 0) return [];
    const [first, last] = [Math.min(...powers), Math.max(...powers)];
    return Array.from({ length: last - first + 1 }, (_, at) => {
      const power = first + at;
      return { from_us: power === 0 ? 0 : 2 ** (power - 1), to_us: 2 ** power, ...(shown.get(power) ?? { count: 0, sum: 0 }) };
    });
  }

  private inOrder() {
    const { bounds } = this;
    return [...this.buckets].toSorted(([one], [other]) => bounds[one]![0] - bounds[other]![0] || bounds[one]![1] - bounds[other]![1]);
  }
}
