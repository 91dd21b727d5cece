// The address of the page: a step for each change, so that the browser's back takes the last one back. Changes that follow each other
// quickly (a turn of the wheel) are one step, taken when they have ended: browsers refuse many steps in a short time.

/** How long nothing more must have come, in milliseconds. */
const REST = 250;

export class Address {
  private waiting = 0;

  /** `fragment` is asked for what the address should be now. */
  constructor(private readonly fragment: () => string) {}

  /** A step to what is shown now. */
  push(): void {
    this.forget();
    const fragment = this.fragment();
    if (`#${fragment}` !== (location.hash || "#")) history.pushState(null, "", this.written(fragment));
  }

  /** A step, when nothing more comes for a moment. */
  pushSoon(): void {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.push(), REST);
  }

  /** Takes the step that was put off, if any: before what is shown changes in another way. */
  settle(): void {
    if (this.waiting !== 0) this.push();
  }

  /** There is no step to take any more: the address has been changed by somebody else. */
  forget(): void {
    clearTimeout(this.waiting);
    this.waiting = 0;
  }

  /** What is shown now, in place of the last step. */
  replace(): void {
    this.forget();
    history.replaceState(null, "", this.written(this.fragment()));
  }

  /** Without a fragment also without its mark. */
  private written(fragment: string): string {
    return fragment === "" ? location.pathname + location.search : `#${fragment}`;
  }
}
