// The places of all chains of a recording: chains that begin alike share them. They are found once; what is chosen is then added up in
// arrays.

import type { Recording } from "./data.ts";
import { Numbers, type Pairs } from "./pairs.ts";
import { NO_NODE } from "./paths.ts";

/** A place stands for all who did the same there, behind the same places; those of each wait event are a tree of their own. */
export interface CausePlaces {
  count: number;
  wait: Uint32Array;
  /** For each place the one before it, the first one behind it, and its next sibling; NO_NODE if there is none. */
  before: Int32Array;
  behind: Int32Array;
  beside: Int32Array;
  /** For each wait event the first place below it. */
  first: Int32Array;
  /** How following ended there: the number of a kind, or NO_NODE if it went on. */
  kind: Int32Array;
  /** For each pair of a wait event and a chain: where the chain ends. */
  end: Uint32Array;
  /** Who was there, session by session: a link of each, or NO_NODE if it was not a session; and the next one of the same place. */
  link: Int32Array;
  next: Int32Array;
  /** For each place the first of these. */
  who: Int32Array;
  /** For each pair, where those of its chain begin; they end where those of the next pair begin. */
  begin: Uint32Array;
  ofPair: Uint32Array;
}

/** For each link a number, from 1, that is the same for those that did the same. */
function doings(of: Recording): Uint32Array {
  const numbers = new Map<string, number>();
  return Uint32Array.from(of.links, (link) => {
    const key = doing(of, link);
    const number = numbers.get(key) ?? numbers.size + 1;
    numbers.set(key, number);
    return number;
  });
}

/** A key that is equal for those that did the same. The wait event of one that did not wait for anybody makes no difference. */
function doing(of: Recording, link: Recording["links"][number]): string {
  const [session, statement, wait, sessionState, state] = link;
  const process = of.sessions.backend_type[session]!;
  return of.state_groups[state] === "blocked" ? `${process} ${statement} ${state} ${wait} ${sessionState}` : `${process} ${statement} ${state}`;
}

function none(count: number): Int32Array {
  return new Int32Array(count).fill(NO_NODE);
}

/** The places for pairs of wait events and chains. */
export function causePlaces(of: Recording, pairs: Pairs): CausePlaces {
  const does = doings(of);
  const kinds = of.cause_kinds.length + 1;
  const most = (of.links.length + 1) * kinds;
  const sessions = of.sessions.pid.length + 1;
  const places = new Numbers();
  const people = new Numbers();
  const [before, kind, wait, link, placeOf, ofPair]: number[][] = [[], [], [], [], [], []];
  const end = new Uint32Array(pairs.count);
  const begin = new Uint32Array(pairs.count + 1);
  for (let pair = 0; pair < pairs.count; pair++) {
    const [kindAt = 0, ...links] = of.chains[pairs.other[pair]!]!;
    let place = NO_NODE;
    for (let at = 0; at < Math.max(1, links.length); at++) {
      const isLast = at >= links.length - 1;
      const here = links[at];
      const what = (here === undefined ? 0 : does[here]!) * kinds + (isLast ? kindAt + 1 : 0);
      // The first places of a wait event are behind the event itself.
      const last = place;
      const above = last === NO_NODE ? pairs.one[pair]! : of.waits.length + last;
      place = places.of(above * most + what);
      if (place === kind!.length) {
        before!.push(last);
        wait!.push(pairs.one[pair]!);
        kind!.push(isLast ? kindAt : NO_NODE);
      }
      const one = people.of(place * sessions + (here === undefined ? 0 : of.links[here]![0] + 1));
      if (one === link!.length) {
        link!.push(here ?? NO_NODE);
        placeOf!.push(place);
      }
      ofPair!.push(one);
    }
    end[pair] = place;
    begin[pair + 1] = ofPair!.length;
  }
  // Linked from the last to the first, so that they come out in order.
  const [behind, beside, first] = [none(places.count), none(places.count), none(of.waits.length)];
  for (let place = places.count - 1; place >= 0; place--) {
    const above = before![place]!;
    const [heads, at] = above === NO_NODE ? [first, wait![place]!] : [behind, above];
    beside[place] = heads[at]!;
    heads[at] = place;
  }
  const [who, next] = [none(places.count), none(people.count)];
  for (let one = people.count - 1; one >= 0; one--) {
    next[one] = who[placeOf![one]!]!;
    who[placeOf![one]!] = one;
  }
  return { count: places.count, wait: Uint32Array.from(wait!), before: Int32Array.from(before!), behind, beside, first, kind: Int32Array.from(kind!), end, link: Int32Array.from(link!), next, who, begin, ofPair: Uint32Array.from(ofPair!) };
}
