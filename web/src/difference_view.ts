// What the page of two recordings shows, and how: all of it is in the fragment of the page's address.

import { type Side, SIDES } from "./difference.ts";
import type { Order } from "./ranked_table.ts";
import { readOrders, readWhole, readZoom, writeOrders, writeWhole, type Zoom, writeZoom } from "./view.ts";

/** Tables whose order is kept. */
export const DIFFERENCE_TABLES = ["statements", "cells", "waits", "functions", "paths", "modules", "latencies", "counters"] as const;
export type DifferenceTable = (typeof DIFFERENCE_TABLES)[number];

export interface DifferenceView {
  /** The side that determines the widths of the flame graph. */
  widths: Side;
  /** With the start of the server, which all stacks have in common. */
  areWhole: boolean;
  /** Root at the top. */
  icicle: boolean;
  zoom: Zoom | null;
  search: string;
  /** The statement whose cells are shown; "" = what belongs to none. */
  statement: string | null;
  orders: Map<DifferenceTable, Order>;
}

/** The view as a fragment, without the #. */
export function written(view: DifferenceView): string {
  const parts = new URLSearchParams();
  if (view.statement !== null) parts.set("statement", view.statement);
  if (view.widths !== SIDES[0]) parts.set("widths", view.widths);
  writeWhole(parts, view.areWhole);
  if (!view.icicle) parts.set("root", "bottom");
  writeZoom(parts, view.zoom);
  if (view.search !== "") parts.set("search", view.search);
  writeOrders(parts, DIFFERENCE_TABLES, view.orders);
  return parts.toString();
}

/** The view of a fragment; unknown parts are ignored. */
export function read(fragment: string): DifferenceView {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    widths: SIDES.find((side) => side === parts.get("widths")) ?? SIDES[0],
    areWhole: readWhole(parts),
    icicle: parts.get("root") !== "bottom",
    zoom: readZoom(parts),
    search: parts.get("search") ?? "",
    statement: parts.get("statement"),
    orders: readOrders(parts, DIFFERENCE_TABLES),
  };
}
