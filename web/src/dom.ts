// Elements. Text is only inserted as text, whatever it contains: nothing here parses markup.

type Child = Node | string | null;

/** An element with these attributes and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A part of the page with its title. */
export function section(id: string, title: string, ...children: (Node | string)[]): HTMLElement {
  return make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), ...children);
}

/** A button that does this. */
export function button(text: Child, attributes: Record<string, string>, act: () => void): HTMLButtonElement {
  const element = make("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", act);
  return element;
}

/** A button that shows more, and the text in its place on paper. */
export function more(text: string, onPaper: string, act: () => void): HTMLElement {
  return make("p", { class: "more" }, button(text, {}, act), make("span", { class: "paper" }, onPaper));
}

/** A text that is useful only on a screen. */
export function hint(text: string): HTMLElement {
  return make("span", { class: "hint" }, text);
}

/** A choice of one of several, with a label. */
export function choice<T extends string>(label: string, values: readonly T[], names: (value: T) => string, act: (value: T) => void) {
  const select = make("select", {}, ...values.map((value) => make("option", { value }, names(value))));
  select.addEventListener("change", () => act(select.value as T));
  return { element: make("label", { class: "choice" }, `${label} `, select), set: (value: T) => (select.value = value) };
}

/** A check box with a label. */
export function toggle(label: string, act: (isOn: boolean) => void) {
  const box = make("input", { type: "checkbox" });
  box.addEventListener("change", () => act(box.checked));
  return { element: make("label", { class: "choice" }, box, ` ${label}`), set: (isOn: boolean) => (box.checked = isOn) };
}

/** Minimum number of pixels per CSS pixel on paper. */
const PAPER_RATIO = 2;

/** A canvas as wide as its container, redrawn when that or the colours of the page change. */
export class Canvas {
  readonly element: HTMLCanvasElement;
  /** In CSS pixels; 0 while it is invisible. The browser reports it: querying it would force a layout of the whole page. */
  width = 0;

  constructor(label: string, role: "img" | "group", draw: () => void) {
    this.element = make("canvas", { tabindex: "0", role, "aria-label": label });
    new ResizeObserver(([entry]) => {
      const { width } = entry!.contentRect;
      if (width === this.width) return;
      this.width = width;
      draw();
    }).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    // Paper has a different width, and is never dark. No observer reports that in time.
    matchMedia("print").addEventListener("change", () => {
      this.width = this.element.getBoundingClientRect().width;
      draw();
    });
  }

  /** Its drawing context, in CSS pixels, cleared; null if there is nothing to draw on. */
  cleared(height: number): CanvasRenderingContext2D | null {
    const { element, width } = this;
    const context = element.getContext("2d");
    if (width === 0 || !context) return null;
    const ratio = Math.max(window.devicePixelRatio || 1, matchMedia("print").matches ? PAPER_RATIO : 0);
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (element.style.height !== `${height}px`) element.style.height = `${height}px`;
    if (element.width !== across) element.width = across;
    if (element.height !== down) element.height = down;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }
}

/** Waits until the browser has painted; not for long if it does not, as in a background tab. */
export function shownOnce(): Promise<void> {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, 200);
  });
}

/** A colour of the style sheet. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The tooltip beside the pointer. */
export class Tip {
  private readonly box = make("div", { class: "tip", hidden: "" });

  constructor() {
    document.body.append(this.box);
  }

  show(event: MouseEvent, lines: string[]): void {
    this.box.replaceChildren(...lines.map((line) => make("div", {}, line)));
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - width - 8);
    const below = event.clientY + 18;
    const top = below + height > window.innerHeight ? event.clientY - height - 12 : below;
    this.box.style.left = `${Math.max(8, left)}px`;
    this.box.style.top = `${Math.max(8, top)}px`;
  }

  hide(): void {
    this.box.hidden = true;
  }
}
