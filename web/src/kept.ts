// A cache of answers that take a while: the same may be asked again, after a choice is undone or on going back.

export class Kept<Answer> {
  private readonly answers = new Map<string, Answer>();

  constructor(private readonly most: number) {}

  /** `question` is all that the answer depends on. */
  get(question: string, find: () => Answer): Answer {
    const answer = this.answers.has(question) ? this.answers.get(question)! : find();
    // The most recently used one is last.
    this.answers.delete(question);
    this.answers.set(question, answer);
    if (this.answers.size > this.most) this.answers.delete(this.answers.keys().next().value!);
    return answer;
  }
}
