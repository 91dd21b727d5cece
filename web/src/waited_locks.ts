// Locks of the server's lock table that blocked sessions waited for: what looks at it stand for, limited to the chosen blocked time, by the
// rule of the report.

import type { Recording } from "./data.ts";
import { chosen, type Filter } from "./filter.ts";
import { Numbers } from "./pairs.ts";
import { NO_NODE } from "./paths.ts";

/** The part of blocked time that was spent waiting for a lock. */
export interface LockShare {
  /** Its index among the names; OTHERS for those without a place there. */
  lock: number;
  sessions: number;
  ns: number;
}

/** The first name: that of the locks for which the page had no room. */
export const OTHERS = 0;

/** A waiter is a session in a wait event and a statement. */
export class WaitedLocks {
  private readonly waiters = new Numbers();
  /** For each cell of the locks, and of the causes, its waiter; NO_NODE if nobody looked for locks. */
  private readonly ofLocks: Int32Array;
  private readonly ofCauses: Int32Array;

  constructor(private readonly of: Recording) {
    const { causes, locks } = of;
    const hasLocks = new Uint8Array(of.waits.length);
    for (const wait of locks.wait) hasLocks[wait] = 1;
    const waiter = ({ session, statement, wait }: Recording["causes"], row: number) =>
      hasLocks[wait[row]!] ? this.waiters.of((session[row]! * of.statements.length + statement[row]!) * of.waits.length + wait[row]!) : NO_NODE;
    this.ofLocks = Int32Array.from({ length: locks.rows }, (_, row) => waiter(locks, row));
    this.ofCauses = Int32Array.from({ length: causes.rows }, (_, row) => waiter(causes, row));
  }

  /** For each wait event the shares in the chosen time, the largest first; `takes` says which causes are chosen. */
  shares(filter: Filter, takes: Uint8Array): Map<number, LockShare[]> {
    const { of, ofCauses, ofLocks, waiters } = this;
    const { causes, locks } = of;
    const blocked = new Float64Array(waiters.count);
    for (let row = 0; row < causes.rows; row++) if (takes[row] && ofCauses[row] !== NO_NODE) blocked[ofCauses[row]!]! += causes.ns[row]!;
    // A look does not say in which state its session was.
    const words = new Map(filter.words);
    words.delete("state");
    const takesLocks = chosen(of, locks, { ...filter, words });
    const looked = new Float64Array(waiters.count);
    const found = new Map<string, { row: number; ns: number }>();
    for (let row = 0; row < locks.rows; row++) {
      if (!takesLocks[row]) continue;
      looked[ofLocks[row]!]! += locks.ns[row]!;
      const key = `${ofLocks[row]} ${locks.lock![row]}`;
      const ofLock = found.get(key);
      if (ofLock) ofLock.ns += locks.ns[row]!;
      else found.set(key, { row, ns: locks.ns[row]! });
    }
    const shares = new Map<number, Map<number, LockShare & { of: Set<number> }>>();
    for (const { row, ns } of found.values()) {
      const [most, all] = [blocked[ofLocks[row]!]!, looked[ofLocks[row]!]!];
      const time = all > most ? Number((BigInt(ns) * BigInt(most)) / BigInt(all)) : ns;
      if (time === 0) continue;
      const ofWait = shares.get(locks.wait[row]!) ?? new Map<number, LockShare & { of: Set<number> }>();
      shares.set(locks.wait[row]!, ofWait);
      const lock = locks.lock![row]!;
      const share = ofWait.get(lock) ?? { lock, sessions: 0, ns: 0, of: new Set<number>() };
      ofWait.set(lock, share);
      share.ns += time;
      share.sessions = share.of.add(locks.session[row]!).size;
    }
    const sorted = (ofWait: Map<number, LockShare>) => [...ofWait.values()].toSorted((one, other) => other.ns - one.ns || one.lock - other.lock);
    return new Map(Array.from(shares, ([wait, ofWait]) => [wait, sorted(ofWait)]));
  }
}
