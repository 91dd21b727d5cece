// A row of a table that can be chosen: by a click, or by Enter where it has the focus; arrows lead to its neighbours.

/** Lets a row act so. */
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
