// Answers that take a while, kept for who asks the same again: who takes a choice back, or goes back.

export class Kept<Answer> {
  private readonly answers = new Map<string, Answer>();

  constructor(private readonly most: number) {}

  /** `question` is all that the answer depends on. */
  get(question: string, find: () => Answer): Answer {
    const answer = this.answers.has(question) ? this.answers.get(question)! : find();
    // The one that was asked for last stands last.
    this.answers.delete(question);
    this.answers.set(question, answer);
    if (this.answers.size > this.most) this.answers.delete(this.answers.keys().next().value!);
    return answer;
  }
}
