// How numbers, moments and foreign names are written: numbers as in the report.

import type { Recording } from "./data.ts";

/** Foreign text that is safe to show: what would reorder a line, hide in it or control anything is a question mark. */
export function shown(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Cn}\p{Co}]/gu, "?");
}

/** The same in one line. */
export function oneLine(text: string): string {
  return shown(text.replace(/\s+/gu, " ").trim());
}

/** A name, or a placeholder for none. */
export function nameOr(text: string): string {
  return text === "" ? "[none]" : shown(text);
}

/** Seconds with three decimals, rounded half up: 12.346. */
export function seconds(ns: number): string {
  return (Math.floor((ns + 500_000) / 1_000_000) / 1_000).toFixed(3);
}

/** An amount in a table: a dash for zero, so that it differs from less than a millisecond. */
export function cell(of: Recording, ns: number): string {
  if (ns === 0) return "–";
  return of.are_times ? seconds(ns) : String(ns);
}

/** 12.346 s, 12 samples. */
export function amount(of: Pick<Recording, "are_times" | "unit">, ns: number): string {
  return of.are_times ? `${seconds(ns)} s` : `${ns} ${of.unit}`;
}

/** A time in a suitable unit, three digits: 870 ns, 12.3 us, 1.23 ms, 45.6 s. */
export function duration(ns: number): string {
  if (ns < 1000) return `${ns} ns`;
  const [unit, length] = ns < 1e6 ? ["us", 1e3] : ns < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  const value = ns / (length as number);
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
}

/** Milliseconds with three decimals, rounded half up. */
export function milliseconds(ns: number): string {
  return (Math.floor((ns + 500) / 1_000) / 1_000).toFixed(3);
}

/** Microseconds, with one decimal below 100: 12.3, 1234. */
export function microseconds(ns: number): string {
  return ns < 99_950 ? (Math.floor((ns + 50) / 100) / 10).toFixed(1) : String(Math.floor((ns + 500) / 1_000));
}

/** Part of a whole in percent. */
export function percent(part: number, whole: number): string {
  return whole > 0 ? ((part * 100) / whole).toFixed(1) : "";
}

/** 1 event, 2 events. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** A moment as the command line accepts it: a time of day in UTC, or seconds since the recording began. */
export function moment(of: Recording, second: number): string {
  if (of.clock === "utc") {
    const date = new Date(second * 1000);
    return Number.isNaN(date.getTime()) ? String(second) : date.toISOString().replace(/\.\d+Z$/, "Z");
  }
  return String(second - Math.floor(of.start_us / 1e6));
}

/** The second of such a moment; null if it is not one. */
export function secondOf(of: Recording, text: string): number | null {
  const sinceEpoch = of.clock === "utc" ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(sinceEpoch)) return Math.floor(sinceEpoch / 1000);
  const second = Number(text);
  return text === "" || Number.isNaN(second) ? null : Math.floor(second + of.start_us / 1e6);
}

/** A moment where there is little room: 17:38:17. */
export function clockTime(of: Recording, second: number): string {
  return of.clock === "utc" ? moment(of, second).slice(11, 19) : `${moment(of, second)} s`;
}
