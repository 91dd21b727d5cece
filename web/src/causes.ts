// Who was waited for: blocked DB time of the chosen cells, along the chains that it was followed.

import type { Recording } from "./data.ts";
import type { Dimension, Filter } from "./filter.ts";

/** What is kept of the causes cannot be told apart by these. */
const NOT_FOLLOWED: readonly Dimension[] = ["session_state", "function"];

/** Those of them that are chosen. */
export function notFollowed(filter: Filter): Dimension[] {
  return NOT_FOLLOWED.filter((dimension) => filter.words.has(dimension));
}

/** Who was waited for at one place of chains, with all that did the same there. */
export interface CauseNode {
  /** Where following ended: null where it went on. */
  kind: Recording["cause_kinds"][number] | null;
  /** One of those who were waited for; null where it was no session. */
  link: Recording["links"][number] | null;
  sessions: Set<number>;
  ns: number;
  children: CauseNode[];
}

/** Blocked time in a wait event. */
export interface CausedWait {
  wait: number;
  sessions: Set<number>;
  ns: number;
  causes: CauseNode[];
}

/** A session for which others waited. */
export interface Blocker {
  session: number;
  waiters: Set<number>;
  ns: number;
  /** Of that, while it was blocked itself: the cause lies further on. */
  blocked: number;
}

export interface Causes {
  /** The most first, as everything below it. */
  waits: CausedWait[];
  blockers: Blocker[];
  blocked: number;
  followed: number;
}

interface Growing extends CauseNode {
  below: Map<string, Growing>;
}

export function causes(of: Recording, takes: Uint8Array): Causes {
  const table = of.causes;
  // Each chain once for each session and wait, however often they met.
  const parts = new Map<string, { session: number; wait: number; chain: number; ns: number }>();
  for (let row = 0; row < table.rows; row++) {
    if (!takes[row] || table.ns[row] === 0) continue;
    const [session, wait, chain] = [table.session[row]!, table.wait[row]!, table.chain![row]!];
    const key = `${session} ${wait} ${chain}`;
    const part = parts.get(key);
    if (part) part.ns += table.ns[row]!;
    else parts.set(key, { session, wait, chain, ns: table.ns[row]! });
  }
  const waits = new Map<number, { sessions: Set<number>; ns: number; below: Map<string, Growing> }>();
  const blockers = new Map<number, Blocker>();
  let blocked = 0;
  let followed = 0;
  for (const { session, wait, chain, ns } of parts.values()) {
    const [kindAt = 0, ...links] = of.chains[chain]!;
    const kind = of.cause_kinds[kindAt]!;
    blocked += ns;
    if (kind !== "left out" && (kind !== "unknown" || links.length > 0)) followed += ns;
    let ofWait = waits.get(wait);
    if (!ofWait) {
      ofWait = { sessions: new Set(), ns: 0, below: new Map() };
      waits.set(wait, ofWait);
    }
    ofWait.sessions.add(session);
    ofWait.ns += ns;
    let { below } = ofWait;
    const steps = links.length > 0 ? links.map((link) => of.links[link]!) : [null];
    steps.forEach((link, at) => {
      const ends = at === steps.length - 1 ? kind : null;
      const key = `${ends} ${link ? doing(of, link) : ""}`;
      let node = below.get(key);
      if (!node) {
        node = { kind: ends, link, sessions: new Set(), ns: 0, children: [], below: new Map() };
        below.set(key, node);
      }
      node.ns += ns;
      below = node.below;
      if (!link) return;
      node.sessions.add(link[0]);
      // Of several places in a chain the last one counts.
      if (steps.slice(at + 1).some((behind) => behind![0] === link[0])) return;
      let blocker = blockers.get(link[0]);
      if (!blocker) {
        blocker = { session: link[0], waiters: new Set(), ns: 0, blocked: 0 };
        blockers.set(link[0], blocker);
      }
      blocker.waiters.add(session);
      blocker.ns += ns;
      // In a wait for its client it is the cause: nobody in the database can do anything about it.
      if (isBlocked(of, link) && of.waits[link[2]]!.class !== "Client") blocker.blocked += ns;
    });
  }
  const found = [...waits].map(([wait, { sessions, ns, below }]) => ({ wait, sessions, ns, causes: sorted(below) }));
  return {
    waits: found.sort((one, other) => other.ns - one.ns || one.wait - other.wait),
    blockers: [...blockers.values()].sort((one, other) => other.ns - one.ns || one.session - other.session),
    blocked,
    followed,
  };
}

function isBlocked(of: Recording, link: Recording["links"][number]): boolean {
  return of.state_groups[link[4]] === "blocked";
}

/** What is equal for those that did the same. In which wait event one was that did not wait for anybody makes no difference. */
function doing(of: Recording, link: Recording["links"][number]): string {
  const [session, statement, wait, sessionState, state] = link;
  const process = of.sessions.backend_type[session]!;
  return isBlocked(of, link) ? `${process} ${statement} ${state} ${wait} ${sessionState}` : `${process} ${statement} ${state}`;
}

function sorted(below: Map<string, Growing>): CauseNode[] {
  const nodes = [...below.values()].sort((one, other) => other.ns - one.ns);
  for (const node of nodes) node.children = sorted(node.below);
  return nodes;
}
