// The data element of a page: decompressed, and cut into dictionaries and columns.

const FORMAT = 4;

export interface Unpacked {
  /** What the page is about. */
  page: "recording" | "difference" | "dive" | "dive difference";
  /** The dictionaries. */
  json: unknown;
  /** Columns by name: of four bytes, of one, of 64 bits. */
  long(name: string): Uint32Array;
  short(name: string): Uint8Array;
  wide(name: string): Float64Array;
}

interface Head {
  format: number;
  page: Unpacked["page"];
  columns: { name: string; width: 1 | 4; rows: number }[];
}

/** Unpacks the text of the data element. Fails, with a message for the reader of the page, if any of it is not as it was written. */
export async function unpack(text: string): Promise<Unpacked> {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    const packed = atob(text.trim());
    bytes = new Uint8Array(packed.length);
    for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  } catch {
    throw new Error("its data is not what was written into it");
  }
  let buffer: ArrayBuffer;
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    buffer = await new Response(stream).arrayBuffer();
  } catch {
    throw new Error("its data cannot be decompressed: a part of it is missing or was changed");
  }
  if (buffer.byteLength < 4) throw new Error("it has no data");
  const length = new DataView(buffer).getUint32(0, true);
  if (4 + length > buffer.byteLength) throw new Error("its data ends early");
  const json = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Head;
  if (json.format !== FORMAT) throw new Error(`its data is of format ${json.format}, not ${FORMAT}`);
  return { page: json.page, json, ...columnsOf(json, buffer, 4 + length) };
}

/** Fails if a number is not an index below `length`. */
export function within(column: ArrayLike<number>, length: number): void {
  for (let at = 0; at < column.length; at++) {
    const value = column[at]!;
    if (!(value >= 0 && value < length)) throw new Error("its data does not fit together");
  }
}

function columnsOf(head: Head, buffer: ArrayBuffer, begin: number): Pick<Unpacked, "long" | "short" | "wide"> {
  const columns = new Map<string, Uint8Array | Uint32Array>();
  let at = begin;
  for (const { name, width, rows } of head.columns) {
    const end = at + width * rows;
    if (end > buffer.byteLength) throw new Error("its data ends early");
    const part = buffer.slice(at, end);
    columns.set(name, width === 4 ? new Uint32Array(part) : new Uint8Array(part));
    at = end;
  }
  const get = (name: string) => {
    const column = columns.get(name);
    if (!column) throw new Error(`it has no column ${name}`);
    return column;
  };
  const long = (name: string) => get(name) as Uint32Array;
  return {
    long,
    short: (name) => get(name) as Uint8Array,
    // Exact up to 2^53: 104 days in nanoseconds.
    wide: (name) => {
      const high = long(`${name}_high`);
      const low = long(`${name}_low`);
      const numbers = new Float64Array(low.length);
      for (let row = 0; row < numbers.length; row++) numbers[row] = high[row]! * 2 ** 32 + low[row]!;
      return numbers;
    },
  };
}
