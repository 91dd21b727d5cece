// Opens a page of 'dbtime html' in a headless Chromium without a network, and says what of it is on paper and what a screen reader is
// told; page.js says what is on the screen.
// Usage: node other_media.js PLAYWRIGHT-CORE CHROMIUM PAGE FOLDER < steps.json
// Steps: {"go": fragment}, {"click": selector}, {"enter": selector} (by the keyboard), {"colours": "dark"}, {"look": true} (on the screen
// and on paper), {"print": name}, {"hear": true}.
const path = require("node:path");

const { run } = require("./opened_page.js");

// Runs in the page: what can be seen of it.
function inPage() {
  const visible = (selector) => [...document.querySelectorAll(selector)].filter((element) => element.checkVisibility());
  // Pixels of each picture for each pixel of its place, across and down.
  window.picturesSeen = () => visible("canvas").map((canvas) => [canvas.width / canvas.clientWidth, canvas.height / canvas.clientHeight]);
  // The darkest pixel at the left of the time line, where the labels of its axis are; from 0 = black to 255.
  window.darkestLabel = () => {
    const canvas = document.querySelector(".timeline canvas");
    if (!canvas) return null;
    const width = Math.round((30 * canvas.width) / canvas.clientWidth);
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [width, canvas.height];
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, width, canvas.height);
    let darkest = 255;
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) darkest = Math.min(darkest, Math.max(data[at], data[at + 1], data[at + 2]));
    return darkest;
  };
  window.seen = () => ({
    text: document.body.innerText,
    controls: visible("input, select, textarea").length,
    crosses: visible(".chip").filter((chip) => getComputedStyle(chip, "::after").content !== "none").length,
    headings: visible("h1, h2, h3").map((heading) => heading.textContent),
    rows: Object.fromEntries(visible("table").map((table) => [table.caption?.textContent ?? table.ariaLabel, [...table.rows].filter((row) => row.checkVisibility()).length])),
    folded: [...document.querySelectorAll("details > :not(summary)")].filter((part) => !part.checkVisibility()).length,
    pictures: picturesSeen(),
    darkest_label: darkestLabel(),
  });
  matchMedia("print").addEventListener("change", (event) => {
    // After all that the page itself does about it.
    if (event.matches) window.printed = { pictures: picturesSeen(), darkest_label: darkestLabel() };
  });
}

async function printed(page, to) {
  await page.evaluate(() => { window.printed = null; });
  const bytes = await page.pdf({ path: to, format: "A4", tagged: true, outline: true });
  const text = bytes.toString("latin1");
  return {
    pages: text.match(/\/Type \/Page\b/g)?.length ?? 0,
    // Of the document, and of its outline.
    titles: [...text.matchAll(/\/Title \(((?:\\.|[^\\)])*)\)/g)].map(([, title]) => title.replace(/\\(.)/g, "$1")),
    ...(await page.evaluate(() => window.printed)),
  };
}

const CONTROLS = ["button", "link", "combobox", "checkbox", "searchbox", "textbox"];
const TABLES = ["table", "grid", "treegrid"];

async function heard(page, session) {
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const byId = new Map(nodes.map((node) => [node.nodeId, node]));
  const below = (node) => (node.childIds ?? []).flatMap((id) => (byId.has(id) ? [byId.get(id), ...below(byId.get(id))] : []));
  const role = (node) => (node.ignored ? "" : node.role.value);
  const name = (node) => node.name?.value ?? "";
  const value = (node, property) => node.properties?.find((one) => one.name === property)?.value.value;
  const text = (node) => below(node).filter((part) => role(part) === "StaticText").map(name).join("");
  const all = below(nodes[0]);
  const called = (node) => [role(node), name(node)];
  // What the tree has for each picture, whatever its role.
  const pictures = [];
  const count = await page.evaluate(() => [...document.querySelectorAll("canvas")].filter((canvas) => canvas.checkVisibility()).length);
  for (let at = 0; at < count; at++) {
    const { result } = await session.send("Runtime.evaluate", { expression: `[...document.querySelectorAll("canvas")].filter((canvas) => canvas.checkVisibility())[${at}]` });
    const { nodes: found } = await session.send("Accessibility.getPartialAXTree", { objectId: result.objectId, fetchRelatives: false });
    pictures.push(called(found[0]));
  }
  return {
    controls: all.filter((node) => CONTROLS.includes(role(node))).map(called),
    headings: all.filter((node) => role(node) === "heading").map((node) => [value(node, "level"), name(node)]),
    tables: all.filter((node) => TABLES.includes(role(node))).map((table) => ({ name: name(table), heads: below(table).filter((node) => role(node) === "columnheader").map(name) })),
    chosen_rows: all.filter((node) => role(node) === "row" && value(node, "selected")).map(name),
    pictures,
    // A screen reader announces changes in these.
    live: all.filter((node) => role(node) !== "" && value(node, "live") === "polite").map((node) => ({ id: node.backendDOMNodeId, text: text(node) })),
    focus: all.filter((node) => value(node, "focused")).map(called),
  };
}

run(async ({ page, context, folder, sights, settled }) => {
  await page.evaluate(inPage);
  const session = await context.newCDPSession(page);
  await session.send("Accessibility.enable");
  return async (what, how) => {
    if (what === "enter") await page.locator(how).first().press("Enter");
    else if (what === "print") sights.push(await printed(page, path.join(folder, how)));
    else if (what === "hear") sights.push(await heard(page, session));
    else if (what === "look") {
      const screen = await page.evaluate(() => seen());
      await page.emulateMedia({ media: "print" });
      await settled();
      sights.push({ screen, paper: await page.evaluate(() => seen()) });
      await page.emulateMedia({ media: null });
    } else return false;
    return true;
  };
});
