// What the page of a dive shows, and how: all of it is in the fragment of the page's address.

import type { Order } from "./ranked_table.ts";
import { readOrders, writeOrders } from "./view.ts";

/** Tables whose order is kept. */
export const DIVE_TABLES = ["tree", "functions", "sampled", "intervals"] as const;
export type DiveTable = (typeof DIVE_TABLES)[number];

/** How far the tree is open before any click: where much of the time is, to this many levels, all of it. */
export const LEVELS = ["busy", "1", "2", "3", "5", "8", "all"] as const;
export type Levels = (typeof LEVELS)[number];

export interface DiveView {
  levels: Levels;
  /** Nodes that were also opened, and closed. */
  opened: ReadonlySet<number>;
  closed: ReadonlySet<number>;
  search: string;
  /** The name of the highlighted function. */
  function: string | null;
  orders: Map<DiveTable, Order>;
}

/** The view as a fragment, without the #. */
export function written(view: DiveView): string {
  const parts = new URLSearchParams();
  if (view.levels !== LEVELS[0]) parts.set("levels", view.levels);
  writeNodes(parts, "open", view.opened);
  writeNodes(parts, "closed", view.closed);
  if (view.function !== null) parts.set("function", view.function);
  if (view.search !== "") parts.set("search", view.search);
  writeOrders(parts, DIVE_TABLES, view.orders);
  return parts.toString();
}

/** The view of a fragment, for a tree of this many nodes; unknown parts are ignored. */
export function read(fragment: string, nodes: number): DiveView {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    levels: LEVELS.find((levels) => levels === parts.get("levels")) ?? LEVELS[0],
    opened: readNodes(parts.get("open") ?? "", nodes),
    closed: readNodes(parts.get("closed") ?? "", nodes),
    search: parts.get("search") ?? "",
    function: parts.get("function"),
    orders: readOrders(parts, DIVE_TABLES),
  };
}

/** Numbers, with consecutive ones as a range: 3.7-12. */
function writeNodes(parts: URLSearchParams, name: string, nodes: ReadonlySet<number>): void {
  const ranges: [number, number][] = [];
  for (const node of [...nodes].toSorted((one, other) => one - other)) {
    const last = ranges.at(-1);
    if (last && last[1] === node - 1) last[1] = node;
    else ranges.push([node, node]);
  }
  if (ranges.length > 0) parts.set(name, ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`)).join("."));
}

function readNodes(text: string, nodes: number): Set<number> {
  const found = new Set<number>();
  for (const range of text.split(".")) {
    const [, from, to = from] = /^(\d+)(?:-(\d+))?$/.exec(range) ?? [];
    for (let node = Number(from); node <= Math.min(Number(to), nodes - 1); node++) found.add(node);
  }
  return found;
}

/** Opens or closes nodes; `isOpenAnyway` says which are open without a click. */
export function turned(view: DiveView, nodes: number[], open: boolean, isOpenAnyway: (node: number) => boolean): DiveView {
  const [opened, closed] = [new Set(view.opened), new Set(view.closed)];
  for (const node of nodes) {
    opened.delete(node);
    closed.delete(node);
    if (open !== isOpenAnyway(node)) (open ? opened : closed).add(node);
  }
  return { ...view, opened, closed };
}
