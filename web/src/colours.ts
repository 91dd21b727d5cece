// Colours: one for each state and each wait class, the same as in the pictures of the other commands.

import type { Recording } from "./data.ts";
import type { TimelineBy, TimelineValue } from "./timeline.ts";

export function ofState(of: Pick<Recording, "palette">, state: string): string {
  return of.palette.states.find(([name]) => name === state)?.[1] ?? of.palette.not_known;
}

/** The colour of a wait or a class of waits; undefined when it has none of its own. */
export function ofWait(of: Pick<Recording, "palette">, label: string): string | undefined {
  let name = label.split(":")[0]!;
  if (label.endsWith(" (no CPU)")) name = " (no CPU)";
  else if (name.startsWith("[")) name = "unknown";
  return of.palette.classes.find(([known]) => known === name)?.[1];
}

/** Colours of the values of a timeline: their own, or a free one. Several events of a class have shades of its colour. */
export function ofValues(of: Recording, by: TimelineBy, values: TimelineValue[]): string[] {
  let free = 0;
  const used: string[] = [];
  return values.map(({ word, label }) => {
    let colour: string | undefined;
    if (word === null) colour = of.palette.other;
    else if (by === "state") colour = ofState(of, word);
    else if (by === "wait" || by === "wait_class") colour = ofWait(of, word);
    else if (label.startsWith("[")) colour = of.palette.not_known;
    colour ??= of.palette.others[free++ % of.palette.others.length]!;
    const same = used.filter((other) => other === colour).length;
    used.push(colour);
    return shade(colour, same);
  });
}

/** The n-th shade of a colour: lighter each time. */
function shade(colour: string, n: number): string {
  const part = (at: number) => {
    const dark = Number.parseInt(colour.slice(at, at + 2), 16);
    return Math.round(255 - (255 - dark) * 0.72 ** n)
      .toString(16)
      .padStart(2, "0");
  };
  return `#${part(1)}${part(3)}${part(5)}`;
}

/** The colour of a function: green to yellow in user code, orange to red in the kernel; equal names have equal colours. */
export function ofFunction(name: string, isKernel: boolean): string {
  // FNV-1a, as in the flame graphs of the other commands.
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(isKernel ? `${name}_[k]` : name)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  const between = (from: number, to: number, salt: bigint) => from + Number((hash >> salt) % BigInt(to - from + 1));
  return isKernel
    ? `rgb(${between(235, 255, 8n)},${between(110, 165, 24n)},${between(60, 95, 40n)})`
    : `rgb(${between(150, 220, 8n)},${between(205, 230, 24n)},${between(90, 120, 40n)})`;
}

/** A colour as a canvas stores it: red in the lowest byte. */
export function packed(colour: string): number {
  const [red = 0, green = 0, blue = 0] = colour.startsWith("#")
    ? [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16))
    : (colour.match(/\d+/g) ?? []).map(Number);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** The colour of readable text on such a colour. */
export function inkOn(colour: number): string {
  const brightness = (colour & 255) * 0.299 + ((colour >> 8) & 255) * 0.587 + ((colour >> 16) & 255) * 0.114;
  return brightness < 125 ? "#ffffff" : "#1a1a1a";
}
