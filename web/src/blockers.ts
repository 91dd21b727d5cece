// Sessions that others waited for, by the time of those others.

import type { Recording } from "./data.ts";
import { Numbers, type Pairs } from "./pairs.ts";

export interface Blocker {
  session: number;
  waiters: number;
  ns: number;
  /** Of that, while it was blocked itself: the cause is further along the chain. */
  blocked: number;
}

/** Of all chains, found once: the chosen ones are then added up in arrays. */
export class Blockers {
  /** For each pair of a session and a chain, where its blockers begin; they end where those of the next pair begin. */
  private readonly begin: Uint32Array;
  private readonly session: Uint32Array;
  private readonly isBlocked: Uint8Array;
  /** Each pair of a waiting session and the one it waited for has its number. */
  private readonly meeting: Uint32Array;
  private readonly meetings = new Numbers();

  constructor(
    private readonly of: Recording,
    pairs: Pairs,
  ) {
    const sessions = of.sessions.pid.length;
    const [session, isBlocked, meeting]: number[][] = [[], [], []];
    this.begin = new Uint32Array(pairs.count + 1);
    for (let pair = 0; pair < pairs.count; pair++) {
      const chain = of.chains[pairs.other[pair]!]!;
      for (let at = 1; at < chain.length; at++) {
        const link = of.links[chain[at]!]!;
        // A session that is in a chain twice is the cause by its last link.
        const isLast = !chain.some((other, place) => place > at && of.links[other]![0] === link[0]);
        if (!isLast) continue;
        session!.push(link[0]);
        // In a wait for its client it is the cause: nobody in the database can do anything about it.
        isBlocked!.push(of.state_groups[link[4]] === "blocked" && of.waits[link[2]]!.class !== "Client" ? 1 : 0);
        meeting!.push(this.meetings.of(link[0] * sessions + pairs.one[pair]!));
      }
      this.begin[pair + 1] = session!.length;
    }
    this.session = Uint32Array.from(session!);
    this.isBlocked = Uint8Array.from(isBlocked!);
    this.meeting = Uint32Array.from(meeting!);
  }

  /** The most first. `ofPair` is the time of each pair. */
  found(ofPair: Float64Array): Blocker[] {
    const count = this.of.sessions.pid.length;
    const [ns, blocked, waiters] = [new Float64Array(count), new Float64Array(count), new Uint32Array(count)];
    const haveMet = new Uint8Array(this.meetings.count);
    for (let pair = 0; pair < ofPair.length; pair++) {
      const time = ofPair[pair]!;
      if (time === 0) continue;
      for (let at = this.begin[pair]!; at < this.begin[pair + 1]!; at++) {
        const session = this.session[at]!;
        const meeting = this.meeting[at]!;
        ns[session]! += time;
        if (this.isBlocked[at]) blocked[session]! += time;
        if (haveMet[meeting]) continue;
        haveMet[meeting] = 1;
        waiters[session]!++;
      }
    }
    const found: Blocker[] = [];
    for (let session = 0; session < count; session++) {
      if (ns[session]! > 0) found.push({ session, waiters: waiters[session]!, ns: ns[session]!, blocked: blocked[session]! });
    }
    return found.toSorted((one, other) => other.ns - one.ns || one.session - other.session);
  }
}
