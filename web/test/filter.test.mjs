// What is computed in the page, on a recording small enough to be added up by hand.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { build } from "esbuild";

/** The sources as a module that Node can import. */
async function sources(code) {
  const built = await build({ stdin: { contents: code, resolveDir: "src" }, bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].contents).toString("base64")}`);
}

const of = await sources(`
  export * from "./filter.ts";
  export * from "./ledger.ts";
  export { databaseView } from "./database_view.ts";
  export * from "./flame.ts";
  export { TimesByModule } from "./modules.ts";
  export { TimesByFunction } from "./functions.ts";
  export * from "./view.ts";
  export * as difference_view from "./difference_view.ts";
  export * from "./words.ts";
  export { Chains } from "./causes.ts";
  export { Histogram } from "./histogram.ts";
  export { eventsTaken, groups, heatMap, ofRange, waysToGroup } from "./latencies.ts";
  export { timeline } from "./timeline.ts";
  export { trustLine } from "./trust.ts";
  export { unpack } from "./unpack.ts";
`);

const wait = (label, kind, idle = false, recorded = undefined) => {
  const [first, event = first] = label.split(":");
  return { label, class: first, event, recorded_event: recorded ?? event, class_by_cpu: first, kind, idle };
};

/** Two sessions, two seconds. Rows: window, session, statement, wait, leaf, ms, place, state. */
function recording(rows) {
  const column = (at) => Uint32Array.from(rows, (row) => row[at]);
  const table = {
    rows: rows.length,
    width_s: 1,
    first_s: 100,
    window: column(0),
    session: column(1),
    statement: column(2),
    wait: column(3),
    leaf: null,
    ns: Float64Array.from(rows, (row) => row[5] * 1e6),
    samples: column(5),
    place: Uint8Array.from(rows, (row) => row[6]),
    state: Uint8Array.from(rows, (row) => row[7]),
    session_state: new Uint8Array(rows.length),
    flags: new Uint8Array(rows.length),
  };
  return {
    are_times: true,
    knows_database: true,
    unit: "time",
    clock: "utc",
    cpus: 2,
    start_us: 100e6,
    from_us: 100e6,
    to_us: 102e6,
    gaps: [],
    may_be_long: true,
    no_timeline: null,
    states: ["user", "kernel", "runnable", "sleep"],
    state_groups: ["cpu", "cpu", "queue", "blocked"],
    session_states: [""],
    waits: [
      wait("CPU", "none"),
      wait("IO:DataFileRead", "event"),
      wait("Client:ClientRead", "event", true),
      { ...wait("Client:ClientRead (no CPU)", "event", true, "ClientRead"), class_by_cpu: "Client (no CPU)" },
    ],
    statements: [{ query: "0" }, { query: "-7", text: "select 1" }],
    names: ["", "alice", "bob"],
    sessions: { pid: [11, 12], foreground: [1, 1], user: [1, 2], database: [0, 0], application: [0, 0], client: [0, 0], backend_type: [0, 0], program: [0, 0] },
    alike: [],
    functions: ["main", "read", "vfs_read", "[preempted]"],
    modules: [0, 0, 1, 2],
    names_of_modules: ["postgres", "[kernel]", ""],
    kernel: [0, 0, 1, 0],
    code_modules: ["postgres", "vfs", "kernel"],
    code_of_functions: [1, 1, 2, 0],
    codeOnCpu: Uint32Array.from([0, 0, 1, 0]),
    codeOffCpu: Uint32Array.from([0, 0, 0, 2]),
    preempted: 3,
    paths: { callers: Int32Array.from([-1, 0, 1, 0]), function_of: Uint32Array.from([0, 1, 2, 3]), begins: new Uint8Array(4) },
    times: table,
    stacks: { ...table, leaf: column(4) },
    causes: { ...table, chain: column(4) },
    locks: { ...table, rows: 0, wait: new Uint32Array(0) },
    latencies: {
      how_to_record: null,
      quantiles: "",
      lost: 0,
      apart: "each",
      alike: [],
      width_s: 1,
      first_s: 100,
      rows: 4,
      kinds: [{ kind: "wait", words: "Waits", explanation: "", names: "wait" }, { kind: "block", words: "Block requests", explanation: "", names: "other" }],
      series: [[0, "IO:DataFileRead", "", ""], [0, "Lock:tuple", "", ""], [1, "read", "sda", ""], [1, "read", "sdb", ""]],
      buckets: [[1000, 1008], [5_000_000, 5_080_000]],
      window: [0, 0, 1, 1],
      session: [1, 2, 1, 0],
      of_series: [0, 1, 0, 2],
      bucket: [0, 1, 1, 0],
      count: [99, 1, 1, 3],
      sum: [99_200, 5_050_000, 5_010_000, 3_012],
      max: [1007, 5_050_000, 5_010_000, 1005],
    },
    cause_kinds: ["session", "device", "timer", "client", "process", "unknown", "left out"],
    // A waits for B, B for its client; nobody knows; no place.
    chains: [[6], [3, 0, 1], [3, 1], [5]],
    links: [[0, 1, 1, 0, 3], [1, 0, 2, 0, 3]],
  };
}

const DB = 0;
const IDLE = 4;
const ROWS = [
  [0, 0, 1, 0, 1, 500, DB, 0],
  [0, 0, 1, 1, 2, 300, DB, 1],
  [0, 0, 0, 2, 0, 200, IDLE, 3],
  [0, 1, 1, 1, 2, 100, DB, 3],
  [1, 1, 0, 3, 0, 50, DB, 2],
  [1, 1, 1, 0, 3, 20, DB, 2],
];

const sums = (recorded, filter) => of.ledger(recorded, recorded.times, of.chosen(recorded, recorded.times, filter));
const choose = (...words) => words.reduce((filter, [dimension, word]) => of.toggled(filter, dimension, word), of.noFilter());
const ms = (ns) => ns / 1e6;
const list = (length, one) => Array.from({ length }, (_, at) => one(at));
const drawn = (recorded, takes, shape, sides) => new of.Flames(recorded, recorded.stacks).draw({ mode: "all", levels: [], first: "callers", areWhole: false, ...shape }, takes, sides);

test("the ledger is in sections, and its sums are those of its rows", () => {
  const ledger = sums(recording(ROWS), of.noFilter());
  assert.deepEqual(ledger.sums.map(ms), [970, 200, 0]);
  assert.deepEqual(
    ledger.rows.map((row) => [row.section, row.wait, ms(row.total)]),
    [
      [0, 0, 520],
      [0, 1, 400],
      [0, 3, 50],
      [1, 2, 200],
    ],
  );
});

test("the steps lead from what the database says to DB time, whatever is chosen", () => {
  const recorded = recording(ROWS);
  for (const filter of [of.noFilter(), choose(["user", "bob"]), choose(["wait", "io"]), choose(["state", "runnable"])]) {
    const view = of.databaseView(recorded, sums(recorded, filter));
    const steps = view.steps.reduce((sum, { ns }) => sum + ns, view.cpu + view.wait);
    assert.equal(steps, view.dbTime);
  }
  const view = of.databaseView(recorded, sums(recorded, of.noFilter()));
  assert.deepEqual([view.cpu, view.wait, view.doubleCounted].map(ms), [800, 400, 300]);
  // What a step chooses is its time.
  const dbTime = (words) => sums(recorded, of.only(of.noFilter(), words)).sums[0];
  for (const { ns, chooses } of view.steps) if (chooses.size > 0) assert.equal(dbTime(chooses), Math.abs(ns));
  assert.deepEqual([view.choosesCpu, view.choosesWait, view.choosesOffCpu, view.steps[0].chooses].map(dbTime).map(ms), [800, 400, 100, 300]);
  const twice = view.steps[0].chooses;
  assert.deepEqual([...twice], [["wait_class", ["IO"]], ["state", ["kernel"]]]);
  // Other words of these dimensions go; a second time they go themselves.
  const before = choose(["user", "alice"], ["state", "sleep"], ["state", "kernel"]);
  assert.deepEqual([...of.only(before, twice).words], [["user", ["alice"]], ["state", ["kernel"]], ["wait_class", ["IO"]]]);
  assert.deepEqual([...of.only(of.only(before, twice), twice).words], [["user", ["alice"]]]);
});

test("words choose as on the command line", () => {
  const recorded = recording(ROWS);
  const dbTime = (filter) => ms(sums(recorded, filter).sums[0]);
  assert.equal(dbTime(choose(["wait", "DataFileRead"])), 400);
  assert.equal(dbTime(choose(["wait", "datafileread"], ["wait", "CPU"])), 920);
  // Of an idle wait both rows, of a command without a CPU its own.
  assert.equal(dbTime(choose(["wait", "Client:ClientRead"])), 50);
  assert.equal(ms(sums(recorded, choose(["wait", "ClientRead"])).sums[1]), 200);
  assert.equal(ms(sums(recorded, choose(["wait", "ClientRead (no CPU)"])).sums[1]), 0);
  assert.equal(dbTime(choose(["user", "bob"], ["query", "-7"])), 120);
  assert.equal(dbTime(choose(["session", "11"], ["state", "KERNEL"])), 300);
  assert.equal(dbTime({ ...of.noFilter(), from: 101 }), 70);
  assert.equal(dbTime({ ...of.noFilter(), to: 101 }), 900);
  assert.equal(dbTime(choose(["user", "nobody"])), 0);
  assert.deepEqual(of.toggled(choose(["user", "bob"]), "user", "bob").words.size, 0);
});

test("functions have the time of their stacks, each once, and preemption is the interrupted function's", () => {
  const recorded = recording(ROWS);
  const takes = of.chosen(recorded, recorded.stacks, of.noFilter());
  const found = Object.fromEntries(new of.TimesByFunction(recorded).times(recorded.stacks, takes).map((time) => [recorded.functions[time.function], [ms(time.self), ms(time.total)]]));
  assert.deepEqual(found, { main: [70, 970], read: [500, 900], vfs_read: [400, 400], "[preempted]": [0, 20] });
  const inside = of.chosen(recorded, recorded.stacks, choose(["function", "vfs_read"]));
  assert.equal(ms(of.ledger(recorded, recorded.stacks, inside).sums[0]), 400);
});

test("modules have the time of their code, and of what went through it", () => {
  const recorded = recording(ROWS);
  const found = new of.TimesByModule(recorded).times(recorded.stacks, of.chosen(recorded, recorded.stacks, of.noFilter()));
  assert.deepEqual(
    found.map(({ module, self, total }) => [recorded.code_modules[module], ms(self), ms(total)]),
    [
      ["postgres", 650, 970],
      ["vfs", 300, 400],
      ["kernel", 20, 20],
    ],
  );
});

test("a module that is chosen has the time that its row has anywhere, of several what has all of them", () => {
  const recorded = recording(ROWS);
  const dbTime = (...words) => ms(of.ledger(recorded, of.tableOf(recorded, choose(...words)), of.chosen(recorded, recorded.stacks, choose(...words))).sums[0]);
  assert.equal(of.tableOf(recorded, choose(["module", "vfs"])), recorded.stacks);
  assert.deepEqual(["postgres", "vfs", "kernel", "nothing", ""].map((name) => dbTime(["module", name])), [970, 400, 20, 0, 0]);
  assert.equal(dbTime(["module", "postgres"], ["module", "vfs"]), 400);
  assert.equal(dbTime(["module", "vfs"], ["module", "kernel"]), 0);
  assert.equal(dbTime(["module", "vfs"], ["state", "sleep"]), 100);
  assert.equal(dbTime(["module", "kernel"], ["function", "[preempted]"]), 20);
});

test("the time of modules is conserved, however paths and states lie", () => {
  let seed = 5;
  const below = (end) => (seed = (seed * 48_271) % 2_147_483_647) % end;
  const [nodes, functions, names] = [60, 12, ["postgres", "libc", "ext4", "kernel"]];
  const recorded = {
    ...recording(list(400, (at) => [Math.floor(at / 200), below(2), below(2), below(4), below(nodes), 1 + below(50), below(3) === 0 ? IDLE : DB, below(4)])),
    functions: list(functions, (at) => `f${at}`),
    code_modules: names,
    // The last serves all modules, and is nobody's.
    code_of_functions: list(functions, (at) => (at === functions - 1 ? 0 : below(names.length + 1))),
    paths: { callers: Int32Array.from(list(nodes, (at) => below(at + 1) - 1)), function_of: Uint32Array.from(list(nodes, () => below(functions))), begins: new Uint8Array(nodes) },
    codeOnCpu: Uint32Array.from(list(nodes, () => below(names.length))),
    codeOffCpu: Uint32Array.from(list(nodes, () => below(names.length))),
  };
  const table = recorded.stacks;
  const modulesOf = (row) => {
    const found = new Set([names[(table.state[row] < 2 ? recorded.codeOnCpu : recorded.codeOffCpu)[table.leaf[row]]]]);
    for (let node = table.leaf[row]; node >= 0; node = recorded.paths.callers[node]) found.add(names[recorded.code_of_functions[recorded.paths.function_of[node]] - 1]);
    return found;
  };
  const times = (filter) => new of.TimesByModule(recorded).times(table, of.chosen(recorded, table, filter));
  const total = (filter, name) => times(filter).find(({ module }) => names[module] === name)?.total ?? 0;
  const filters = [[], [["state", "sleep"]], [["user", "bob"], ["wait", "IO"]], [["module", "libc"]], [["function", "f3"]]];
  for (const words of filters) {
    for (const name of names) {
      const both = choose(...words.filter(([, word]) => word !== name), ["module", name]);
      const takes = of.chosen(recorded, table, both);
      const sum = of.ledger(recorded, table, takes).sums[0];
      assert.equal(sum, total(choose(...words), name), `${words} ${name}`);
      assert.equal(sum, times(both).reduce((all, { self }) => all + self, 0), "each cell is somebody's");
      const without = of.chosen(recorded, table, choose(...words));
      for (let row = 0; row < table.rows; row++) assert.equal(takes[row], without[row] && modulesOf(row).has(name) ? 1 : 0, `${words} ${name} ${row}`);
    }
  }
});

test("stacks that are kept for sessions that are alike are those of all of them", () => {
  const recorded = { ...recording(ROWS.map((row) => row.with(1, 0))), alike: [0, 0] };
  const dbTime = (filter) => ms(of.ledger(recorded, recorded.stacks, of.chosen(recorded, recorded.stacks, filter)).sums[0]);
  assert.equal(dbTime(choose(["session", "12"])), 970);
  assert.equal(dbTime(choose(["session", "13"])), 0);
  assert.deepEqual([choose(["session", "12"]), choose(["user", "bob"])].map((filter) => of.isFinerThanStacks(recorded, filter)), [true, false]);
});

test("frames are as wide as their time, and lie inside of their callers", () => {
  const recorded = recording(ROWS);
  const takes = of.chosen(recorded, recorded.stacks, of.noFilter());
  for (const [mode, total] of [["all", 970], ["on-cpu", 800], ["off-cpu", 170]]) {
    const flame = drawn(recorded, takes, { mode, levels: ["wait", "state"] });
    assert.equal(ms(flame.total), total);
    for (let frame = 1; frame < flame.count; frame++) {
      const caller = flame.caller[frame];
      assert.ok(flame.from[frame] >= flame.from[caller]);
      assert.ok(flame.from[frame] + flame.ns[frame] <= flame.from[caller] + flame.ns[caller]);
      assert.equal(of.frameAt(flame, flame.from[frame] + 1, flame.depth[frame]), frame);
    }
  }
  const flame = drawn(recorded, takes, {});
  assert.equal(ms(of.found(recorded, flame, "READ").ns), 900);
});

test("with callees first a path begins with its leaf, and paths that end alike are one there", () => {
  const recorded = recording([
    [0, 0, 1, 0, 2, 500, DB, 0],
    [0, 0, 1, 0, 1, 300, DB, 0],
    [0, 1, 1, 0, 2, 100, DB, 0],
  ]);
  const flame = drawn(recorded, new Uint8Array(3).fill(1), { first: "callees" });
  const names = (row) => [...row].map((frame) => [frame === 0 ? "all" : recorded.functions[flame.value[frame]], ms(flame.ns[frame])]);
  assert.deepEqual(flame.rows.map(names), [
    [["all", 900]],
    [["read", 300], ["vfs_read", 600]],
    [["main", 300], ["read", 600]],
    [["main", 600]],
  ]);
});

test("the start of the server is left out unless it is asked for, and takes no time with it", () => {
  const recorded = recording([
    [0, 0, 1, 0, 3, 500, DB, 0],
    [0, 0, 1, 0, 6, 300, DB, 0],
    [0, 0, 1, 0, 1, 100, DB, 0],
    [0, 0, 1, 0, 2, 7, DB, 1],
    [0, 0, 1, 0, 0, 20, DB, 0],
  ]);
  // main calls the postmaster, that the loop, that itself; and the loop is called by a second start.
  recorded.functions = ["main", "PostmasterMain", "ServerLoop", "k"];
  recorded.paths = { callers: Int32Array.from([-1, 0, 1, 1, 3, -1, 5]), function_of: Uint32Array.from([0, 1, 3, 2, 2, 1, 2]), begins: Uint8Array.from([0, 1, 0, 1, 0, 1, 1]) };
  const rows = (areWhole, first) => {
    const flame = drawn(recorded, new Uint8Array(5).fill(1), { areWhole, first });
    return flame.rows.map((row) => [...row].map((frame) => [frame === 0 ? "all" : recorded.functions[flame.value[frame]], ms(flame.ns[frame])]));
  };
  assert.deepEqual(rows(false, "callers"), [[["all", 927]], [["PostmasterMain", 107], ["ServerLoop", 800], ["main", 20]], [["k", 7]]]);
  assert.deepEqual(rows(true, "callers"), [[["all", 927]], [["PostmasterMain", 300], ["main", 627]], [["ServerLoop", 300], ["PostmasterMain", 607]], [["ServerLoop", 500], ["k", 7]]]);
  assert.deepEqual(rows(false, "callees")[2], [["PostmasterMain", 7]]);
});

test("a frame of a comparison has the time of both sides, and width by one of them", () => {
  const recorded = recording(ROWS);
  const { stacks } = recorded;
  const other = Float64Array.from(stacks.ns, (ns, row) => (row === 0 ? 0 : row === 1 ? 2 * ns : ns));
  const takes = new Uint8Array(stacks.rows).fill(1);
  const both = drawn(recorded, takes, {}, { ns: stacks.ns, other });
  const mirrored = drawn(recorded, takes, {}, { ns: other, other: stacks.ns });
  assert.equal(both.other[0], mirrored.total);
  assert.equal(mirrored.other[0], both.total);
  assert.equal(both.own[1].reduce((sum, ns) => sum + ns), both.other[0], "what is in frames themselves sums to all");
  // What is on the other side only has no width, and is in no row.
  for (const row of mirrored.rows) for (const frame of row) assert.ok(mirrored.ns[frame] > 0);
});

test("the buckets of a time line sum to DB time", () => {
  const recorded = recording(ROWS);
  for (const by of ["wait_class", "wait", "state", "query", "user"]) {
    const line = of.timeline(recorded, of.noFilter(), by);
    const sum = line.rates.reduce((all, rates, bucket) => all + rates.reduce((one, rate) => one + rate, 0) * (line.bounds[bucket][1] - line.bounds[bucket][0]), 0);
    assert.equal(Math.round(sum * 1000), 970e6);
  }
});

const lineOf = (recorded) => {
  const { values, rates, before } = of.timeline(recorded, of.noFilter(), "wait");
  return [values.map((value) => value.label), rates.map((bucket) => bucket.map((rate) => Math.round(rate * 1000))), Math.round(ms(before))];
};

test("what is longer than its window began before it", () => {
  const recorded = recording([
    [1, 0, 1, 1, 2, 1500, DB, 1],
    [1, 0, 1, 0, 1, 200, DB, 0],
  ]);
  assert.deepEqual(lineOf(recorded), [["CPU", "IO:DataFileRead"], [[0, 700], [200, 800]], 0]);
  assert.deepEqual(lineOf({ ...recorded, may_be_long: false }), [["CPU", "IO:DataFileRead"], [[0, 0], [200, 1500]], 0]);
  assert.deepEqual(lineOf({ ...recorded, from_us: 100_500_000 })[2], 200);
});

test("what samples tell of some seconds as a whole is spread over them", () => {
  const recorded = recording([
    [1, 0, 1, 0, 1, 3000, DB, 0],
    [1, 1, 1, 1, 2, 1000, DB, 1],
  ]);
  const samples = { ...recorded, may_be_long: false, periods: [[101e6, 2e9]] };
  assert.deepEqual(lineOf(samples), [["CPU", "IO:DataFileRead"], [[1500, 500], [1500, 500]], 0]);
  assert.deepEqual(lineOf({ ...samples, from_us: 100_500_000 })[2], 1000);
  // Where sessions are followed each is one, whatever is told of.
  assert.deepEqual(lineOf({ ...samples, may_be_long: true }), lineOf(recorded));
});

test("looks at locks say for which, and never for more than a session was blocked", () => {
  const recorded = recording([
    [0, 0, 1, 1, 1, 500, DB, 3],
    [0, 1, 1, 1, 2, 300, DB, 3],
    [1, 0, 1, 1, 1, 100, DB, 3],
  ]);
  // Those of the first session stand for twice as long as it was blocked. What nobody was blocked in counts for nothing.
  const looks = recording([
    [0, 0, 1, 1, 1, 900, DB, 0],
    [0, 1, 1, 1, 1, 100, DB, 0],
    [1, 0, 1, 1, 2, 300, DB, 0],
    [1, 0, 0, 1, 2, 40, DB, 0],
  ]);
  const chains = new of.Chains({ ...recorded, locks: { ...looks.times, lock: looks.stacks.leaf }, waited_locks: ["", "a", "b"] });
  const said = (filter) => chains.causes(filter).waits.map(({ locks }) => locks.map(({ lock, sessions, ns }) => [lock, sessions, ms(ns)]));
  const only = (dimension, word) => of.toggled(of.noFilter(), dimension, word);
  assert.deepEqual(said(of.noFilter()), [[[1, 2, 550], [2, 1, 150]]]);
  assert.deepEqual(said(only("session", "12")), [[[1, 1, 100]]]);
  // A look does not say in which state its session was.
  assert.deepEqual(said(only("state", recorded.states[3])), said(of.noFilter()));
  assert.deepEqual(said({ ...of.noFilter(), from: 101 }), [[[2, 1, 100]]]);
});

test("chains that begin alike are one, and each of their links was waited for", () => {
  const recorded = recording([
    [0, 0, 1, 1, 1, 500, DB, 3],
    [0, 1, 1, 1, 2, 300, DB, 3],
    [1, 0, 1, 1, 1, 100, DB, 3],
    [1, 0, 1, 0, 3, 50, DB, 3],
    [1, 0, 1, 0, 0, 7, DB, 3],
  ]);
  const found = new of.Chains(recorded).causes(of.noFilter());
  assert.deepEqual([found.blocked, found.followed].map(ms), [957, 900]);
  const tree = (node) => [node.kind, ms(node.ns), Array.from(node.children, tree)];
  assert.deepEqual(
    found.waits.map(({ wait: event, ns, sessions, causes }) => [event, ms(ns), sessions.size, Array.from(causes, tree)]),
    [
      [1, 900, 2, [[null, 600, [["client", 600, []]]], ["client", 300, []]]],
      [0, 57, 1, [["unknown", 50, []], ["left out", 7, []]]],
    ],
  );
  assert.deepEqual(found.waits.map(({ places }) => places), [3, 2], "as many as there are in the trees");
  // Of what is chosen: its places, and the link of who is there.
  const [{ causes, places }] = new of.Chains(recorded).causes(of.toggled(of.noFilter(), "session", "12")).waits;
  assert.deepEqual([places, Array.from(causes, ({ kind, link, sessions }) => [kind, link, sessions])], [1, [["client", recorded.links[1], 1]]]);
  assert.deepEqual(
    found.blockers.map(({ session, waiters, ns, blocked }) => [session, waiters, ms(ns), ms(blocked)]),
    [
      [1, 2, 900, 0],
      [0, 1, 600, 600],
    ],
  );
});

test("events are grouped by what is chosen, and a heat map has each of them once", () => {
  const recorded = recording(ROWS);
  const taken = (kind, filter) => of.eventsTaken(recorded, kind, filter);
  const found = (kind, filter, by) => of.groups(recorded.latencies, taken(kind, filter), by).map(({ labels, histogram }) => labels.concat(histogram.count, histogram.max));
  assert.deepEqual(found(0, of.noFilter(), ["name"]), [["IO:DataFileRead", 100, 5_010_000], ["Lock:tuple", 1, 5_050_000]]);
  assert.deepEqual(found(0, choose(["wait", "lock"]), []), [[1, 5_050_000]]);
  assert.deepEqual(found(0, { ...of.noFilter(), from: 101 }, []), [[1, 5_010_000]]);
  assert.deepEqual(found(0, choose(["user", "bob"]), ["name"]), [["Lock:tuple", 1, 5_050_000]]);
  assert.deepEqual([found(1, of.noFilter(), ["device"]), found(1, choose(["user", "bob"]), [])], [[["sda", 3, 1005]], []]);
  assert.deepEqual(of.waysToGroup(recorded.latencies, 1), [["device"]]);
  const [{ histogram }] = of.groups(recorded.latencies, taken(0, of.noFilter()), []);
  assert.deepEqual([0.5, 0.99, 1].map((q) => histogram.quantile(q)), [1003, 5_039_999, 5_050_000]);
  assert.deepEqual(histogram.powersOfTwo().filter(({ count }) => count > 0).map(({ from_us, count }) => [from_us, count]), [[1, 99], [4096, 2]]);
  const slow = histogram.within([4096, 8192]);
  assert.deepEqual([slow.count, slow.sum, slow.max, histogram.within([2, 4]).count], [2, 10_060_000, 5_050_000, 0]);
  assert.equal(of.ofRange(recorded.latencies, taken(0, of.noFilter()), [4096, 8192]).join(""), "0110");
  const map = of.heatMap(recorded, taken(0, of.noFilter()));
  const cells = [...map.count].flatMap((count, key) => (count > 0 ? [[Math.floor(key / (map.powers * map.perPower)), count]] : []));
  assert.deepEqual(cells.toSorted(), [[0, 1], [0, 99], [1, 1]]);
});

test("a view is read as it is written", () => {
  const recorded = recording(ROWS);
  const view = { ...of.usualView(recorded), filter: { ...choose(["wait", "a&b=c#d"], ["user", ""], ["function", "operator<<(é)"], ["module", "libc"], ["module", "[jit]"]), from: 100, to: 102 }, by: "query", mode: "off-cpu", levels: "query", first: "callees", areWhole: true, icicle: false, zoom: { from: 5, span: 12_345_678_901 }, search: "x y", orders: new Map([["who", { column: "user", isReversed: true }], ["functions", { column: "total", isReversed: false }]]), latency: { kind: "read", by: "name,source", of: ["IO:DataFileRead", ""], us: [4096, 8192] } };
  assert.deepEqual(of.read(recorded, `#${of.written(recorded, view)}`), view);
  const compared = { widths: "good", areWhole: true, icicle: false, zoom: { from: 1, span: 2 }, search: "é&", statement: "", orders: new Map([["paths", { column: "good", isReversed: true }]]) };
  assert.deepEqual(of.difference_view.read(`#${of.difference_view.written(compared)}`), compared);
  assert.deepEqual(of.read(recorded, "#by=nothing&zzz=1&from=never&zoom=9-9&sort_nothing=user"), of.usualView(recorded));
  for (const none of ["", "4096", "4096-8193", "4095-8192", "3-6", "0-0", "8192-4096", "-1-1"]) assert.equal(of.read(recorded, `#latency_us=${none}`).latency.us, null, none);
  assert.deepEqual(of.read(recorded, "#latency_us=0-1").latency.us, [0, 1]);
});

test("foreign text is shown without what controls, reorders or hides", () => {
  assert.equal(of.shown("a\u202eb\u200bc\u0007d\u2028e\u{e0041}"), "a?b?c?d?e?");
  assert.equal(of.shown("größe 漢字 🐘"), "größe 漢字 🐘");
  assert.deepEqual([0, 499_999, 500_000, 12_345_678_901].map(of.seconds), ["0.000", "0.000", "0.001", "12.346"]);
});

test("what is exact, sampled, pooled and lost is one line, of the report's own numbers", () => {
  const quality = ["samples 5, torn 0, lost 1; not sampled 0.057 s (0.3 % of all time shown)", "22 of 100 distinct frames could not be named"];
  const line = (...how) => of.trustLine({ first_lines: ["PostgreSQL 17.1 on host, 2 CPUs", "From 2025-06-15 15:06:40 UTC, 20.000 s", ...how], quality });
  const totals = "Exact: the totals of each session (kernel accounting). Sampled: how they split by wait event, state and stack.";
  const pooled = "Pooled: 1.3 % of DB time, from sessions too short to be sampled individually: their exact totals, split by the samples of similar sessions.";
  assert.equal(line(totals, pooled), `Exact: the totals of each session. Sampled: how they split by wait event, state and stack. Pooled: 1.3 % of DB time. · ${quality[0]}`);
  assert.equal(line("Exact: disk. Partly exact: sleep (5.0 % sampled)."), `Exact: disk. Partly exact: sleep. · ${quality[0]}`);
  assert.equal(line("All times are exact."), `All times are exact. · ${quality[0]}`);
  assert.equal(of.trustLine({ first_lines: ["Whatever"], quality: [] }), "");
});

test("data that is damaged is refused with words", async () => {
  const texts = ["", "%%%", "AAAA", Buffer.from("no zlib").toString("base64")];
  await Promise.all(texts.map((text) => assert.rejects(of.unpack(text), /its data|it has no data/, text)));
});

test("the page has no way to take text for markup or code", () => {
  const page = readFileSync("dist/page.html", "utf8");
  for (const sink of ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "createContextualFragment", "srcdoc", "parseFromString", ".src =", "javascript:", "http://", "https://"]) {
    assert.ok(!page.includes(sink), sink);
  }
});
