// A row of a table that can be chosen: by a click, or by Enter when it has the focus; arrow keys move to its neighbours.

/** Makes a row behave like that. */
export function actOn(line: HTMLTableRowElement, act: () => void): void {
  line.addEventListener("click", () => {
    if (getSelection()?.isCollapsed !== false) act();
  });
  line.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      act();
    } else if (event.key === "ArrowDown") (line.nextElementSibling as HTMLElement | null)?.focus();
    else if (event.key === "ArrowUp") (line.previousElementSibling as HTMLElement | null)?.focus();
  });
}
