// Opens a page of 'dbtime html' in a headless Chromium without a network, does what it is told, and prints what is to be seen.
// Usage: node page.js PLAYWRIGHT-CORE CHROMIUM PAGE FOLDER < steps.json
// Steps: {"go": fragment}, {"click": selector}, {"press": key}, {"fill": [selector, text]}, {"drag": [selector, from, to]} (parts of its
// width), {"at": [selector, part, pixels down]} (a click), {"scroll": [selector, pixels]}, {"hover": selector}, {"focus": selector},
// {"back": true}, {"size": [width, height]}, {"colours": "dark"}, {"picture": name}, {"see": true},
// {"time": fragment} (milliseconds until what is in sight is drawn, and until all of it is), {"frames": [selector, from, to]} (a drag:
// frames per second).
const path = require("node:path");

const { run } = require("./opened_page.js");

// What stands in the page, in numbers.
function seen() {
  const all = (selector) => [...document.querySelectorAll(selector)];
  for (let button; (button = document.querySelector(".ledger > button.more, .causes > button.more, p.more button")); ) button.click();
  const text = (element) => element?.textContent ?? "";
  const line = (row) => ({ key: row.dataset.key, cells: [...row.cells].map(text), values: [...row.cells].map((cell) => Number(cell.dataset.value ?? "NaN")) });
  return {
    ready: document.documentElement.dataset.ready,
    fragment: location.hash,
    title: document.title,
    text: document.body.innerText,
    chips: all(".chip").map(text),
    summary: text(document.querySelector(".summary")),
    db_time_ns: Number(document.getElementById("db-time")?.dataset.ns ?? "NaN"),
    ledger: all(".matrix tbody tr").map((row) => ({
      section: row.dataset.section,
      wait: row.dataset.wait,
      rest: Number(row.dataset.rest),
      total_ns: Number(row.dataset.ns),
      fidelity: row.dataset.mix,
      states: Object.fromEntries([...row.querySelectorAll("td[data-state]")].map((cell) => [cell.dataset.state, Number(cell.dataset.ns)])),
    })),
    steps: all(".steps tr").map((row) => [text(row.cells[0]), Number(row.dataset.ns)]),
    causes: {
      blocked_ns: Number(document.querySelector(".causes > p")?.dataset.ns ?? "NaN"),
      followed_ns: Number(document.querySelector(".causes > p")?.dataset.followed ?? "NaN"),
      empty: text(document.querySelector(".causes .empty")),
      waits: all(".causes tbody").map((body) => ({
        wait: body.rows[0].dataset.wait,
        sessions: Number(body.rows[0].dataset.sessions),
        ns: Number(body.rows[0].dataset.ns),
        locks: [...body.querySelectorAll(".locks span")].map((lock) => ({ name: lock.textContent.slice(0, lock.textContent.lastIndexOf(": ")), sessions: Number(lock.dataset.sessions), ns: Number(lock.dataset.ns) })),
        causes: [...body.rows].slice(1).filter((row) => !row.matches(".locks")).map((row) => ({ kind: row.dataset.kind, depth: Number(row.dataset.depth), ns: Number(row.dataset.ns) })),
      })),
      blockers: all("#waited .ranked tbody tr").map(line),
    },
    latency: {
      kinds: all("#latency .tools label:first-child option").map((option) => option.value),
      ways: all("#latency .tools label:last-child option").map((option) => option.value),
      rows: all("#latency .ranked tbody tr").map(line),
      title: text(document.querySelector("#latency h3")),
      empty: document.querySelector("#latency .empty")?.hidden ? "" : text(document.querySelector("#latency .empty")),
      status: text(document.querySelector("#latency .heatmap .status")),
      histogram: all(".histogram tbody tr").map((row) => [row.dataset.from, row.dataset.count, row.dataset.ns].map(Number)),
    },
    statements: all("#sql tbody tr").map(line),
    sessions: all("#who tbody tr").map(line),
    functions: all("#functions tbody tr").map(line),
    timeline: {
      values: all(".timeline canvas thead th").slice(1).map(text),
      marks: all(".marks li").map(text),
      buckets: all(".timeline canvas tbody tr").map((row) => ({ us: Number(row.dataset.us), rates: [...row.cells].slice(1).map((cell) => Number(cell.textContent)) })),
    },
    tables: Object.fromEntries(all(".ranked table").map((table) => [text(table.caption), [...table.tBodies[0].rows].map(line)])),
    tree: all(".tree tbody tr").map((row) => ({ ...line(row), level: Number(row.ariaLevel), expanded: row.ariaExpanded, lit: row.ariaSelected === "true", focused: row === document.activeElement })),
    tree_status: text(document.querySelector("#tree .status")),
    flame: text(document.querySelector(".flame .status")),
    // How far it is scrolled, and how far it can be.
    flame_px: all(".flamebox").map((box) => [box.scrollTop, box.scrollHeight - box.clientHeight])[0] ?? null,
    trouble: text(document.querySelector(".trouble")),
    trust: text(document.querySelector("#trust summary")),
    trust_px: document.querySelector("#trust")?.getBoundingClientRect().top ?? null,
    legend: all(".timeline .legend:not(.marks) li").map(text),
    elements: all("*").length,
    scripts: all("script").length,
    ran: window.ran ?? null,
    marks: Object.fromEntries(performance.getEntriesByType("mark").map((mark) => [mark.name, mark.startTime])),
    measured: window.dbtimePage?.measure?.() ?? null,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
}

// Goes to a fragment, and says how long it takes until what is in sight is drawn, and until all of it is.
function timed(fragment) {
  return new Promise((done) => {
    const begin = performance.now();
    const elapsed = () => performance.now() - begin;
    const drawn = (ms) => (window.dbtimePage.isDrawn === false ? setTimeout(drawn, 0, ms) : done({ ms, all_ms: elapsed() }));
    requestAnimationFrame(() => setTimeout(() => drawn(elapsed()), 0));
    location.hash = fragment;
    dispatchEvent(new HashChangeEvent("hashchange"));
  });
}

// Collects the times of frames from now on.
function watchFrames() {
  window.frameTimes = [];
  const next = (time) => {
    window.frameTimes?.push(time);
    if (window.frameTimes) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}

run(({ page, folder, sights }) => async (what, how) => {
  if (what === "press") await page.keyboard.press(how);
  else if (what === "fill") await page.locator(how[0]).fill(how[1]);
  else if (what === "hover") await page.locator(how).first().hover();
  else if (what === "focus") await page.locator(how).first().focus();
  else if (what === "scroll") await page.locator(how[0]).first().evaluate((element, px) => (element.scrollTop = px), how[1]);
  else if (what === "back") await page.goBack();
  else if (what === "size") await page.setViewportSize({ width: how[0], height: how[1] });
  else if (what === "picture") await page.screenshot({ path: path.join(folder, how), fullPage: true });
  else if (what === "see") sights.push(await page.evaluate(seen));
  else if (what === "time") sights.push(await page.evaluate(timed, how));
  else if (["at", "drag", "frames"].includes(what)) {
    const [selector, ...places] = how;
    await page.locator(selector).first().scrollIntoViewIfNeeded();
    const box = await page.locator(selector).first().boundingBox();
    const to = (part, down) => page.mouse.move(box.x + part * box.width, box.y + down);
    if (what === "at") {
      await to(places[0], places[1]);
      await page.mouse.down();
      await page.mouse.up();
    } else if (what === "frames") {
      await to(places[0], 60);
      await page.mouse.down();
      await page.evaluate(watchFrames);
      for (let step = 1; step <= 60; step++) await to(places[0] + ((places[1] - places[0]) * step) / 60, 60);
      const times = await page.evaluate(() => {
        const times = window.frameTimes;
        window.frameTimes = null;
        return times;
      });
      await page.mouse.up();
      sights.push({ per_second: (1000 * (times.length - 1)) / (times.at(-1) - times[0]) });
    } else {
      await to(places[0], 60);
      await page.mouse.down();
      await to((places[0] + places[1]) / 2, 60);
      await to(places[1], 60);
      await page.mouse.up();
    }
  } else return false;
  return true;
});
