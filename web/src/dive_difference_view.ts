// What the page of two dives shows, and how: all of it is in the fragment of the page's address.

import { DIVE_LISTS, type DiveList } from "./dive_difference.ts";
import type { Order } from "./ranked_table.ts";
import { readOrders, writeOrders } from "./view.ts";

export interface DiveDifferenceView {
  /** Only rows with this in a name are shown. */
  search: string;
  /** The name of the chosen function: only rows with it on their path are shown. */
  function: string | null;
  orders: Map<DiveList, Order>;
}

/** The view as a fragment, without the #. */
export function written(view: DiveDifferenceView): string {
  const parts = new URLSearchParams();
  if (view.function !== null) parts.set("function", view.function);
  if (view.search !== "") parts.set("search", view.search);
  writeOrders(parts, DIVE_LISTS, view.orders);
  return parts.toString();
}

/** The view of a fragment; unknown parts are ignored. */
export function read(fragment: string): DiveDifferenceView {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  return { search: parts.get("search") ?? "", function: parts.get("function"), orders: readOrders(parts, DIVE_LISTS) };
}
