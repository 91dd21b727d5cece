// Parts of a page: visible ones are drawn at once, the rest as soon as the browser has painted those.

import { shownOnce } from "./dom.ts";
import { keepingFocus } from "./focus.ts";

/** How long drawing may block the page at a time. */
const AT_A_TIME_MS = 50;

export interface Part {
  element: HTMLElement;
  /** What it depends on: a part that was drawn for the same is not redrawn. Null if that is not known. */
  question: () => string | null;
  draw: () => void;
}

export class Parts {
  private readonly inSight = new Set<Element>();
  private readonly answered = new Map<Part, string | null>();
  private waiting: Part[] = [];
  private work: Promise<void> | null = null;

  constructor(private readonly parts: Part[]) {
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.inSight.add(target);
        else this.inSight.delete(target);
      }
    });
    for (const { element } of parts) observer.observe(element);
    // On paper all of it is visible.
    addEventListener("beforeprint", () => this.finish());
  }

  /** Whether nothing is left to be drawn. */
  get areDrawn(): boolean {
    return this.work === null;
  }

  /** Resolves when all of it is drawn. */
  async draw(): Promise<void> {
    for (const part of this.parts) if (this.inSight.has(part.element)) this.answer(part);
    // Parts that are still waiting from before are queued again.
    this.waiting = this.parts.filter((part) => !this.inSight.has(part.element));
    this.work ??= this.drawRest();
    await this.work;
  }

  /** Few enough at a time that another choice can come between: each batch costs the browser a layout of the page. */
  private async drawRest(): Promise<void> {
    await shownOnce();
    const begin = performance.now();
    keepingFocus(() => {
      while (this.waiting.length > 0 && performance.now() - begin < AT_A_TIME_MS) this.answer(this.waiting.shift()!);
    });
    if (this.waiting.length > 0) return this.drawRest();
    this.work = null;
  }

  private finish(): void {
    for (const part of this.waiting.splice(0)) this.answer(part);
  }

  private answer(part: Part): void {
    const question = part.question();
    if (question !== null && question === this.answered.get(part)) return;
    this.answered.set(part, question);
    part.draw();
  }
}
