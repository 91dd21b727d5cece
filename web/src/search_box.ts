// The search box for frames: / goes there from anywhere, Escape clears it.

import { make } from "./dom.ts";

export class SearchBox {
  readonly element = make("input", { type: "search", placeholder: "Search frames ( / )", "aria-label": "Search frames", spellcheck: "false" });

  constructor(find: (text: string) => void) {
    const box = this.element;
    box.addEventListener("input", () => find(box.value));
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      box.value = "";
      find("");
      box.blur();
    });
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key !== "/" || isTyping) return;
      event.preventDefault();
      box.focus();
    });
  }

  /** Shows a text, unless somebody is typing. */
  set(text: string): void {
    if (document.activeElement !== this.element) this.element.value = text;
  }
}
