// Makes dist/page.html of the sources: style and script in one file, each allowed by its hash and nothing else.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const bundled = await build({
  entryPoints: ["src/main.ts"],
  bundle: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  legalComments: "none",
  write: false,
});
const script = bundled.outputFiles[0].text;
const style = readFileSync("src/page.css", "utf8");
// Either would end its element, or be part of the frame.
for (const text of [script, style]) {
  if (/<\/|<!--|@(DATA|SCRIPT|STYLE|POLICY)@/.test(text)) throw new Error("the bundle cannot stand in a page as it is");
}
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; base-uri 'none'; form-action 'none'`;
const page = readFileSync("src/page.html", "utf8")
  .replace("@POLICY@", () => policy)
  .replace("@STYLE@", () => style)
  .replace("@SCRIPT@", () => script);
writeFileSync("dist/page.html", page);
