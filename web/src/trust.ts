// How far to trust the numbers, in the one line that stays visible.

import type { Recording } from "./data.ts";
import { shown } from "./words.ts";

/** Beginnings of lines of the report that say what is exact, sampled or pooled. */
const SAYS_HOW = /^(All times are exact|Exact: |Sampled: |Partly exact: |Pooled: )/;

/** What is exact, sampled and pooled, abbreviated; then the first line on quality: samples that were torn or lost, and what was not
 * sampled. */
export function trustLine({ first_lines, quality }: Pick<Recording, "first_lines" | "quality">): string {
  const how = first_lines.filter((line) => SAYS_HOW.test(line)).map((line) => line.replace(/ \([^)]*\)/g, "").replace(/^(Pooled: [^,]*),.*/, "$1."));
  return shown([how.join(" "), quality[0] ?? ""].filter((text) => text !== "").join(" · "));
}
