// Who was waited for: blocked DB time of the chosen cells, along the chains that it was followed.

import type { Recording } from "./data.ts";
import { type Dimension, type Filter, OF_CODE } from "./filter.ts";
import { type Pairs, pairsOf } from "./pairs.ts";

/** What is kept of the causes cannot be told apart by these. */
const NOT_FOLLOWED: readonly Dimension[] = ["session_state", ...OF_CODE];

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
  below: Map<number, Growing>;
}

/** Blocked time along the chains of a recording. */
export class Chains {
  /** For each link a number that is equal for those that did the same. */
  private readonly does: Uint32Array;
  /** For each chain the last link of each of its sessions. */
  private readonly blockers: Recording["links"][number][][];

  constructor(private readonly of: Recording) {
    const numbers = new Map<string, number>();
    this.does = Uint32Array.from(of.links, (link) => {
      const key = doing(of, link);
      const number = numbers.get(key) ?? numbers.size + 1;
      numbers.set(key, number);
      return number;
    });
    this.blockers = of.chains.map(([, ...links]) => [...new Map(links.map((link) => [of.links[link]![0], link])).values()].map((link) => of.links[link]!));
  }

  /** Of the cells that are taken. */
  causes(takes: Uint8Array): Causes {
    const { of } = this;
    const table = of.causes;
    const waitChains = pairsOf(table.wait, table.chain!, of.chains.length);
    const sessionChains = pairsOf(table.session, table.chain!, of.chains.length);
    const ofWait = new Float64Array(waitChains.count);
    const ofSession = new Float64Array(sessionChains.count);
    const sessionWaits = pairsOf(table.session, table.wait, of.waits.length);
    const isThere = new Uint8Array(sessionWaits.count);
    for (let row = 0; row < table.rows; row++) {
      if (!takes[row] || table.ns[row] === 0) continue;
      ofWait[waitChains.of[row]!]! += table.ns[row]!;
      ofSession[sessionChains.of[row]!]! += table.ns[row]!;
      isThere[sessionWaits.of[row]!] = 1;
    }
    const waits = new Map<number, { sessions: Set<number>; ns: number; below: Map<number, Growing> }>();
    for (let pair = 0; pair < sessionWaits.count; pair++) {
      if (!isThere[pair]) continue;
      const wait = sessionWaits.other[pair]!;
      let ofThis = waits.get(wait);
      if (!ofThis) waits.set(wait, (ofThis = { sessions: new Set(), ns: 0, below: new Map() }));
      ofThis.sessions.add(sessionWaits.one[pair]!);
    }
    let blocked = 0;
    let followed = 0;
    for (let pair = 0; pair < waitChains.count; pair++) {
      const ns = ofWait[pair]!;
      if (ns === 0) continue;
      const [kindAt = 0, ...links] = of.chains[waitChains.other[pair]!]!;
      const kind = of.cause_kinds[kindAt]!;
      blocked += ns;
      if (kind !== "left out" && (kind !== "unknown" || links.length > 0)) followed += ns;
      const ofThis = waits.get(waitChains.one[pair]!)!;
      ofThis.ns += ns;
      this.follow(ofThis.below, kindAt, links, ns);
    }
    const found = [...waits].map(([wait, { sessions, ns, below }]) => ({ wait, sessions, ns, causes: sorted(below) }));
    return { waits: found.toSorted((one, other) => other.ns - one.ns || one.wait - other.wait), blockers: this.blockersOf(sessionChains, ofSession), blocked, followed };
  }

  /** Adds time along a chain. */
  private follow(into: Map<number, Growing>, kindAt: number, links: number[], ns: number): void {
    const { of } = this;
    const kinds = of.cause_kinds.length + 1;
    let below = into;
    for (let at = 0; at < Math.max(1, links.length); at++) {
      const isLast = at >= links.length - 1;
      const link = links[at];
      const key = (link === undefined ? 0 : this.does[link]!) * kinds + (isLast ? kindAt + 1 : 0);
      let node = below.get(key);
      if (!node) below.set(key, (node = { kind: isLast ? of.cause_kinds[kindAt]! : null, link: link === undefined ? null : of.links[link]!, sessions: new Set(), ns: 0, children: [], below: new Map() }));
      node.ns += ns;
      if (link !== undefined) node.sessions.add(of.links[link]![0]);
      below = node.below;
    }
  }

  private blockersOf(sessionChains: Pairs, ofSession: Float64Array): Blocker[] {
    const { of } = this;
    const blockers = new Map<number, Blocker>();
    for (let pair = 0; pair < sessionChains.count; pair++) {
      const ns = ofSession[pair]!;
      if (ns === 0) continue;
      for (const link of this.blockers[sessionChains.other[pair]!]!) {
        let blocker = blockers.get(link[0]);
        if (!blocker) blockers.set(link[0], (blocker = { session: link[0], waiters: new Set(), ns: 0, blocked: 0 }));
        blocker.waiters.add(sessionChains.one[pair]!);
        blocker.ns += ns;
        // In a wait for its client it is the cause: nobody in the database can do anything about it.
        if (isBlocked(of, link) && of.waits[link[2]]!.class !== "Client") blocker.blocked += ns;
      }
    }
    return [...blockers.values()].toSorted((one, other) => other.ns - one.ns || one.session - other.session);
  }
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

function sorted(below: Map<number, Growing>): CauseNode[] {
  const nodes = [...below.values()].toSorted((one, other) => other.ns - one.ns);
  for (const node of nodes) node.children = sorted(node.below);
  return nodes;
}
