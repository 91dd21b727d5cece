// The tree of all calls merged: who is below whom, which rows are visible, and in which order.

import type { DivePaths } from "./dive_data.ts";
import { NO_NODE } from "./paths.ts";

/** A visible row. */
export interface TreeRow {
  node: number;
  /** Its place among the callees of its caller, from 1, and how many these are. */
  place: number;
  of: number;
}

/** The order of the callees of one caller. */
export type Compare = (one: number, other: number) => number;

/** Share of the time of all calls from which callees are shown without a click. */
const BUSY = 0.1;

export class DiveTree {
  readonly count: number;
  /** The caller of each node. */
  readonly callers: Int32Array;
  /** The first node after those below it. */
  private readonly ends: Uint32Array;
  /** Whether it is part of a call: not of an interrupt. */
  readonly isOfCall: Uint8Array;
  /** Nodes with much of the time of the calls. */
  readonly busy: Uint8Array;

  constructor(
    private readonly paths: Pick<DivePaths, "name" | "depth" | "total">,
    noCalls: number[],
    callsNs: number,
  ) {
    const { depth, total } = paths;
    this.count = depth.length;
    this.callers = new Int32Array(this.count).fill(NO_NODE);
    this.ends = new Uint32Array(this.count).fill(this.count);
    this.isOfCall = new Uint8Array(this.count);
    const above: number[] = [];
    const no = new Set(noCalls);
    for (let node = 0; node < this.count; node++) {
      while (above.length > depth[node]!) this.ends[above.pop()!] = node;
      const caller = above.at(-1) ?? NO_NODE;
      this.callers[node] = caller;
      this.isOfCall[node] = caller === NO_NODE ? (no.has(node) ? 0 : 1) : this.isOfCall[caller]!;
      above.push(node);
    }
    this.busy = this.isOfCall.map((isOfCall, node) => (isOfCall === 1 && total[node]! >= callsNs * BUSY ? 1 : 0));
  }

  /** What it calls, in the order of the page; without a node the roots. */
  callees(node: number): number[] {
    const found = [];
    const end = node === NO_NODE ? this.count : this.ends[node]!;
    for (let at = node === NO_NODE ? 0 : node + 1; at < end; at = this.ends[at]!) found.push(at);
    return found;
  }

  hasCallees(node: number): boolean {
    return this.ends[node]! > node + 1;
  }

  /** Rows from top to bottom: what is below an open one is visible. */
  rows(isOpen: (node: number) => boolean, compare: Compare): TreeRow[] {
    const rows: TreeRow[] = [];
    const left: TreeRow[] = [];
    const add = (nodes: number[]) => {
      // Equal ones keep their order.
      nodes.sort(compare);
      for (let at = nodes.length - 1; at >= 0; at--) left.push({ node: nodes[at]!, place: at + 1, of: nodes.length });
    };
    add(this.callees(NO_NODE));
    for (let row = left.pop(); row; row = left.pop()) {
      rows.push(row);
      if (isOpen(row.node) && this.hasCallees(row.node)) add(this.callees(row.node));
    }
    return rows;
  }

  /** Nodes with these names. */
  nodesOf(isFound: (name: number) => boolean): Uint8Array {
    const found = new Map<number, number>();
    return Uint8Array.from(this.paths.name, (name) => {
      let is = found.get(name);
      if (is === undefined) found.set(name, (is = isFound(name) ? 1 : 0));
      return is;
    });
  }

  /** What has to be open for these to be visible. */
  wayTo(nodes: Uint8Array): Uint8Array {
    const way = new Uint8Array(this.count);
    for (let node = this.count - 1; node >= 0; node--) {
      const caller = this.callers[node]!;
      if (caller !== NO_NODE && (nodes[node] === 1 || way[node] === 1)) way[caller] = 1;
    }
    return way;
  }

  /** How many these are, and their time as a part of that of the calls: nested ones count once. */
  sum(nodes: Uint8Array): { count: number; ns: number } {
    const isInside = new Uint8Array(this.count);
    let [count, ns] = [0, 0];
    for (let node = 0; node < this.count; node++) {
      const caller = this.callers[node]!;
      if (caller !== NO_NODE && (nodes[caller] === 1 || isInside[caller] === 1)) isInside[node] = 1;
      if (nodes[node] === 0) continue;
      count++;
      if (isInside[node] === 0 && this.isOfCall[node] === 1) ns += this.paths.total[node]!;
    }
    return { count, ns };
  }
}
