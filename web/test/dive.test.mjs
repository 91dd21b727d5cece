// The tree of a dive, small enough to be followed by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const code = `
  export { DiveTree } from "./dive_tree.ts";
  export { diveOf } from "./dive_data.ts";
  export * from "./dive_view.ts";
  export { microseconds, milliseconds } from "./words.ts";
`;
const built = await build({ stdin: { contents: code, resolveDir: "src" }, bundle: true, format: "esm", write: false });
const of = await import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].contents).toString("base64")}`);

// call(read(lock, copy(lock)), write), [interrupt](lock)
const NAMES = ["call", "read", "lock", "copy", "write", "[interrupt]"];
const paths = {
  name: Uint32Array.of(0, 1, 2, 3, 2, 4, 5, 2),
  depth: Uint32Array.of(0, 1, 2, 2, 3, 1, 0, 1),
  total: Float64Array.of(100, 80, 5, 60, 10, 9, 30, 20),
};
const tree = new of.DiveTree(paths, [6], 100);
const byTotal = (one, other) => paths.total[other] - paths.total[one];
const isOneOfTwo = (node) => node < 2;
const names = (nodes) => nodes.map((node) => NAMES[paths.name[node]]);

test("callees are below their callers, and rows are what is open", () => {
  assert.deepEqual(tree.callees(-1), [0, 6]);
  assert.deepEqual(tree.callees(1), [2, 3]);
  assert.deepEqual([...tree.callers], [-1, 0, 1, 1, 3, 0, -1, 6]);
  const rows = tree.rows(isOneOfTwo, byTotal);
  assert.deepEqual(names(rows.map(({ node }) => node)), ["call", "read", "copy", "lock", "write", "[interrupt]"]);
  assert.deepEqual(rows[3], { node: 2, place: 2, of: 2 });
  assert.deepEqual(names(tree.rows(() => true, byTotal).map(({ node }) => node)), ["call", "read", "copy", "lock", "lock", "write", "[interrupt]", "lock"]);
  assert.equal(tree.rows(() => false, byTotal).length, 2);
});

test("where much of the time of the calls is, is open; interrupts are none of it", () => {
  assert.deepEqual([...tree.busy], [1, 1, 0, 1, 1, 0, 0, 0]);
  assert.deepEqual([...tree.isOfCall], [1, 1, 1, 1, 1, 1, 0, 0]);
});

test("what is found is counted once, and its callers are the way to it", () => {
  const locks = tree.nodesOf((name) => NAMES[name] === "lock");
  assert.deepEqual([...locks], [0, 0, 1, 0, 1, 0, 0, 1]);
  assert.deepEqual([...tree.wayTo(locks)], [1, 1, 0, 1, 0, 0, 1, 0]);
  assert.deepEqual(tree.sum(locks), { count: 3, ns: 15 });
  const nested = tree.nodesOf((name) => NAMES[name] !== "call");
  assert.deepEqual(tree.sum(nested), { count: 7, ns: 89 }, "read and write");
});

test("deep trees are followed", () => {
  const deep = 50_000;
  const chain = { name: new Uint32Array(deep), depth: Uint32Array.from({ length: deep }, (_, at) => at), total: new Float64Array(deep).fill(1) };
  const straight = new of.DiveTree(chain, [], 1);
  assert.equal(straight.rows(() => true, () => 0).length, deep);
  assert.equal(straight.sum(new Uint8Array(deep).fill(1)).ns, 1);
});

test("the address keeps the view", () => {
  const view = of.read("#levels=3&open=2-4.7&closed=1&function=read+%5Bext4%5D&search=%3C&sort_tree=own.reversed", 8);
  assert.deepEqual([[...view.opened], [...view.closed], view.levels], [[2, 3, 4, 7], [1], "3"]);
  assert.deepEqual([view.function, view.search, view.orders.get("tree")], ["read [ext4]", "<", { column: "own", isReversed: true }]);
  assert.equal(of.written(view), "levels=3&open=2-4.7&closed=1&function=read+%5Bext4%5D&search=%3C&sort_tree=own.reversed");
  assert.equal(of.written(of.read("", 8)), "");
  const odd = of.read("#levels=constructor&open=5-99999999999999.x.-1.3-2.9-&closed=", 8);
  assert.deepEqual([odd.levels, [...odd.opened], [...odd.closed]], ["busy", [5, 6, 7], []]);
});

test("what is turned as it would be anyway is not kept", () => {
  const turn = (view, nodes, open) => of.turned(view, nodes, open, isOneOfTwo);
  const closed = turn(of.read("", 8), [0, 3], false);
  assert.equal(of.written(closed), "closed=0");
  const opened = turn(closed, [0, 3, 4], true);
  assert.equal(of.written(opened), "open=3-4");
  assert.equal(of.written(turn(opened, [3, 4], false)), "");
});

test("times are written as in the report", () => {
  assert.deepEqual([0, 499, 500, 255_000, 28_652_499].map(of.milliseconds), ["0.000", "0.000", "0.001", "0.255", "28.652"]);
  assert.deepEqual([0, 49, 50, 25_000, 99_949, 99_950, 122_600].map(of.microseconds), ["0.0", "0.0", "0.1", "25.0", "99.9", "100", "123"]);
});

test("a tree that has a hole is damaged", () => {
  const columns = { "paths.name": Uint32Array.of(0, 0), "paths.depth": Uint32Array.of(0, 2), "functions.name": new Uint32Array() };
  const unpacked = {
    json: { functions: ["f"], modules: [0], names_of_modules: [""], no_calls: [] },
    long: (name) => columns[name],
    wide: () => new Float64Array(2),
  };
  assert.throws(() => of.diveOf(unpacked), /does not fit together/);
  columns["paths.depth"][1] = 1;
  assert.deepEqual(of.diveOf(unpacked).names, ["f"]);
});
