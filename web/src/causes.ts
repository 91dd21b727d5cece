// Who was waited for: blocked DB time of the chosen cells, along the chains through which it was followed.

import { type Blocker, Blockers } from "./blockers.ts";
import { causePlaces, type CausePlaces } from "./cause_places.ts";
import type { Recording } from "./data.ts";
import { chosen, type Dimension, type Filter, OF_CODE } from "./filter.ts";
import { type Pairs, pairsOf } from "./pairs.ts";
import { NO_NODE } from "./paths.ts";
import { type LockShare, WaitedLocks } from "./waited_locks.ts";

/** The stored causes cannot be split by these. */
const NOT_FOLLOWED: readonly Dimension[] = ["session_state", ...OF_CODE];

/** Those of them that are chosen. */
export function notFollowed(filter: Filter): Dimension[] {
  return NOT_FOLLOWED.filter((dimension) => filter.words.has(dimension));
}

/** Who was waited for at one place of chains, with all that did the same there. */
export interface CauseNode {
  /** How following ended: null if it went on. */
  kind: Recording["cause_kinds"][number] | null;
  /** One of those who were waited for; null if it was not a session. */
  link: Recording["links"][number] | null;
  /** How many they were. */
  sessions: number;
  ns: number;
  /** Whom these waited for, the most first: found on demand. */
  children: Iterable<CauseNode>;
}

/** Blocked time in a wait event. */
export interface CausedWait {
  wait: number;
  sessions: Set<number>;
  ns: number;
  /** For which locks of the lock table, as far as that is known: the most first. */
  locks: LockShare[];
  causes: Iterable<CauseNode>;
  /** How many there are, with all below them. */
  places: number;
}

export interface Causes {
  /** The most first. */
  waits: CausedWait[];
  blockers: Blocker[];
  blocked: number;
  followed: number;
}

/** Blocked time along the chains of a recording. */
export class Chains {
  private readonly waitChains: Pairs;
  private readonly sessionChains: Pairs;
  private readonly sessionWaits: Pairs;
  private readonly places: CausePlaces;
  private readonly blockers: Blockers;
  private readonly locks: WaitedLocks;

  constructor(private readonly of: Recording) {
    const { chain, session, wait } = of.causes;
    this.waitChains = pairsOf(wait, chain!, of.chains.length);
    this.sessionChains = pairsOf(session, chain!, of.chains.length);
    this.sessionWaits = pairsOf(session, wait, of.waits.length);
    this.places = causePlaces(of, this.waitChains);
    this.blockers = new Blockers(of, this.sessionChains);
    this.locks = new WaitedLocks(of);
  }

  /** The causes of what is chosen. */
  causes(filter: Filter): Causes {
    const { of, places, sessionChains, sessionWaits, waitChains } = this;
    const table = of.causes;
    const takes = chosen(of, table, filter);
    const locks = this.locks.shares(filter, takes);
    const ofWait = new Float64Array(waitChains.count);
    const ofSession = new Float64Array(sessionChains.count);
    const isThere = new Uint8Array(sessionWaits.count);
    for (let row = 0; row < table.rows; row++) {
      if (!takes[row] || table.ns[row] === 0) continue;
      ofWait[waitChains.of[row]!]! += table.ns[row]!;
      ofSession[sessionChains.of[row]!]! += table.ns[row]!;
      isThere[sessionWaits.of[row]!] = 1;
    }
    let blocked = 0;
    let followed = 0;
    const ns = new Float64Array(places.count);
    const wasThere = new Uint8Array(places.link.length);
    for (let pair = 0; pair < waitChains.count; pair++) {
      const time = ofWait[pair]!;
      if (time === 0) continue;
      const [kindAt = 0, ...links] = of.chains[waitChains.other[pair]!]!;
      const kind = of.cause_kinds[kindAt]!;
      blocked += time;
      if (kind !== "left out" && (kind !== "unknown" || links.length > 0)) followed += time;
      ns[places.end[pair]!]! += time;
      for (let at = places.begin[pair]!; at < places.begin[pair + 1]!; at++) wasThere[places.ofPair[at]!] = 1;
    }
    const waits = new Map<number, CausedWait>();
    for (let pair = 0; pair < sessionWaits.count; pair++) {
      if (!isThere[pair]) continue;
      const wait = sessionWaits.other[pair]!;
      let ofThis = waits.get(wait);
      if (!ofThis) waits.set(wait, (ofThis = { wait, sessions: new Set(), ns: 0, locks: locks.get(wait) ?? [], causes: new Nodes(of, places, ns, wasThere, places.first[wait]!), places: 0 }));
      ofThis.sessions.add(sessionWaits.one[pair]!);
    }
    // What is behind a place has a larger number.
    for (let place = places.count - 1; place >= 0; place--) {
      if (ns[place] === 0) continue;
      const ofThis = waits.get(places.wait[place]!)!;
      const before = places.before[place]!;
      ofThis.places++;
      if (before === NO_NODE) ofThis.ns += ns[place]!;
      else ns[before]! += ns[place]!;
    }
    const found = [...waits.values()].toSorted((one, other) => other.ns - one.ns || one.wait - other.wait);
    return { waits: found, blockers: this.blockers.found(ofSession), blocked, followed };
  }
}

/** Sibling places that have time, the most first. */
class Nodes implements Iterable<CauseNode> {
  constructor(
    private readonly of: Recording,
    private readonly places: CausePlaces,
    private readonly ns: Float64Array,
    private readonly wasThere: Uint8Array,
    private readonly first: number,
  ) {}

  *[Symbol.iterator](): Iterator<CauseNode> {
    const { of, places, ns, wasThere } = this;
    const found: number[] = [];
    for (let place = this.first; place !== NO_NODE; place = places.beside[place]!) if (ns[place]! > 0) found.push(place);
    for (const place of found.toSorted((one, other) => ns[other]! - ns[one]!)) {
      const kind = places.kind[place]!;
      let link = NO_NODE;
      let sessions = 0;
      for (let one = places.who[place]!; one !== NO_NODE; one = places.next[one]!) {
        if (!wasThere[one] || places.link[one] === NO_NODE) continue;
        if (sessions++ === 0) link = places.link[one]!;
      }
      yield {
        kind: kind === NO_NODE ? null : of.cause_kinds[kind]!,
        link: link === NO_NODE ? null : of.links[link]!,
        sessions,
        ns: ns[place]!,
        children: new Nodes(of, places, ns, wasThere, places.behind[place]!),
      };
    }
  }
}
