// The address of the page: one history entry per change, so that the browser's back button undoes the last one. Changes in quick succession
// (a turn of the wheel) are one entry, added when they have ended: browsers refuse many entries in a short time.

/** How long to wait for further changes, in milliseconds. */
const REST = 250;

export class Address {
  private waiting = 0;

  /** `fragment` returns what the address should be now. */
  constructor(private readonly fragment: () => string) {}

  /** Adds an entry for what is shown now. */
  push(): void {
    this.forget();
    const fragment = this.fragment();
    if (`#${fragment}` !== (location.hash || "#")) history.pushState(null, "", this.written(fragment));
  }

  /** Adds an entry when nothing has changed for a moment. */
  pushSoon(): void {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.push(), REST);
  }

  /** Adds the postponed entry, if any: before what is shown changes in another way. */
  settle(): void {
    if (this.waiting !== 0) this.push();
  }

  /** Drops the postponed entry: somebody else has changed the address. */
  forget(): void {
    clearTimeout(this.waiting);
    this.waiting = 0;
  }

  /** Replaces the last entry by what is shown now. */
  replace(): void {
    this.forget();
    history.replaceState(null, "", this.written(this.fragment()));
  }

  /** Without a fragment also without the #. */
  private written(fragment: string): string {
    return fragment === "" ? location.pathname + location.search : `#${fragment}`;
  }
}
