// Pairs of values that cells have, numbered once, so that chosen ones can be added up in an array.

export interface Pairs {
  /** For each cell the number of its pair. */
  of: Uint32Array;
  /** For each pair its two values. */
  one: Uint32Array;
  other: Uint32Array;
  count: number;
}

/** Numbers keys, in the order in which they come. */
export class Numbers {
  private readonly known = new Map<number, number>();

  get count(): number {
    return this.known.size;
  }

  of(key: number): number {
    let number = this.known.get(key);
    if (number === undefined) this.known.set(key, (number = this.known.size));
    return number;
  }

  keys(): number[] {
    return [...this.known.keys()];
  }
}

const known = new WeakMap<Uint32Array, WeakMap<Uint32Array, Pairs>>();

/** Pairs of two columns of a table; `others` is the number of values of the second. */
export function pairsOf(one: Uint32Array, other: Uint32Array, others: number): Pairs {
  let ofOne = known.get(one);
  if (!ofOne) known.set(one, (ofOne = new WeakMap()));
  let pairs = ofOne.get(other);
  if (!pairs) ofOne.set(other, (pairs = numbered(one, other, others)));
  return pairs;
}

function numbered(one: Uint32Array, other: Uint32Array, others: number): Pairs {
  const numbers = new Numbers();
  const of = new Uint32Array(one.length);
  for (let row = 0; row < of.length; row++) of[row] = numbers.of(one[row]! * others + other[row]!);
  const keys = numbers.keys();
  return { of, one: Uint32Array.from(keys, (key) => Math.floor(key / others)), other: Uint32Array.from(keys, (key) => key % others), count: keys.length };
}
