// Elements. Text comes in as text only, whatever is in it: nothing here reads markup.

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

/** A button that does this. */
export function button(text: Child, attributes: Record<string, string>, act: () => void): HTMLButtonElement {
  const element = make("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", act);
  return element;
}

/** A choice of one of several, with a label. */
export function choice<T extends string>(label: string, values: readonly T[], names: (value: T) => string, act: (value: T) => void) {
  const select = make("select", {}, ...values.map((value) => make("option", { value }, names(value))));
  select.addEventListener("change", () => act(select.value as T));
  return { element: make("label", { class: "choice" }, `${label} `, select), set: (value: T) => (select.value = value) };
}

/** Something that is there or not, with a label. */
export function toggle(label: string, act: (isOn: boolean) => void) {
  const box = make("input", { type: "checkbox" });
  box.addEventListener("change", () => act(box.checked));
  return { element: make("label", { class: "choice" }, box, ` ${label}`), set: (isOn: boolean) => (box.checked = isOn) };
}

/** A canvas as large as its place, drawn anew when that or the colours of the page change. */
export function canvas(label: string, role: "img" | "group", draw: () => void): HTMLCanvasElement {
  const element = make("canvas", { tabindex: "0", role, "aria-label": label });
  new ResizeObserver(draw).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return element;
}

/** Its drawing context, in CSS pixels, cleared; null where there is nothing to draw on. */
export function cleared(element: HTMLCanvasElement, height: number): { context: CanvasRenderingContext2D; width: number } | null {
  const width = element.clientWidth;
  const context = element.getContext("2d");
  if (width === 0 || !context) return null;
  const ratio = window.devicePixelRatio || 1;
  if (element.style.height !== `${height}px`) element.style.height = `${height}px`;
  element.width = Math.round(width * ratio);
  element.height = Math.round(height * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width };
}

/** A colour of the style sheet. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The box beside the pointer. */
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
