// A page of 'dbtime html', opened in a headless Chromium without a network; and what goes wrong in it.
const fs = require("node:fs");
const path = require("node:path");

// Opens it, takes the steps from standard input one by one, and prints what was seen. The scripts' arguments are PLAYWRIGHT-CORE CHROMIUM
// PAGE FOLDER.
async function opened(prepare) {
  const [core, executablePath, file, folder] = process.argv.slice(2);
  const { chromium } = require(path.resolve(core));
  const steps = JSON.parse(fs.readFileSync(0, "utf8"));
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
  await context.setOffline(true);
  const page = await context.newPage();
  const troubles = [];
  page.on("dialog", (dialog) => {
    troubles.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("pageerror", (e) => troubles.push(`error: ${e.message}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) troubles.push(`console: ${message.text()}`);
  });
  const own = `file://${path.resolve(file)}`;
  page.on("request", (request) => {
    if (!request.url().startsWith(own)) troubles.push(`request: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`));
  });
  await page.goto(own);
  // Ready, or the file was read to its end and the message that a part is missing can be seen.
  const isThere = () => {
    const missing = document.readyState === "complete" ? document.querySelector(".missing") : null;
    return document.documentElement.dataset.ready !== undefined || missing?.checkVisibility({ visibilityProperty: true });
  };
  await page.waitForFunction(isThere, null, { timeout: 30000 });
  // What follows an event is drawn at once if it is in sight, otherwise soon after; the event itself may come a little later.
  const settled = async () => {
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0))));
    await page.waitForFunction(() => window.dbtimePage?.isDrawn !== false);
  };
  const sights = [];
  const take = await prepare({ page, context, folder, sights, settled });
  for (const step of steps) {
    const [[what, how]] = Object.entries(step);
    if (what === "go") await page.evaluate((fragment) => { location.hash = fragment; }, how);
    else if (what === "click") await page.locator(how).first().click();
    else if (what === "colours") await page.emulateMedia({ colorScheme: how });
    else if (!(await take(what, how))) throw new Error(`no such step: ${what}`);
    await settled();
  }
  await browser.close();
  process.stdout.write(JSON.stringify({ sights, troubles }));
}

// `prepare` is called with the page once it is there, and returns a function that takes the script's own steps; that returns false for a
// step that it does not know.
exports.run = (prepare) => {
  opened(prepare).catch((e) => {
    console.error(e);
    process.exit(1);
  });
};
