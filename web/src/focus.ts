// Keeps the focus where it is when the element that has it is redrawn.

/** Draws. If nothing has the focus then, it goes to the button with the same name in the same part of the page, or to the first there. */
export function keepingFocus(draw: () => void): void {
  const had = document.activeElement;
  const name = had?.getAttribute("aria-label");
  const part = had?.closest("section, .chips");
  draw();
  if (!part || document.activeElement !== document.body) return;
  const buttons = [...part.querySelectorAll("button")];
  const same = buttons.find((button) => button.getAttribute("aria-label") === name) ?? buttons[0];
  same?.focus({ preventScroll: true });
}
