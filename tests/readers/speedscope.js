// Opens a file with speedscope's own importer: node speedscope.js PACKAGE FILE. Prints what it found as JSON.
//
// The package is the released application, which has no entry for other programs: its code is run up to the point where it
// would draw, and the function that reads its own format is taken out of it.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, file] = [path.join(process.argv[2], "dist/release"), process.argv[3]];
const bundle = fs.readdirSync(folder).find((name) => /^speedscope-.*\.js$/.test(name));
const source = fs.readFileSync(path.join(folder, bundle), "utf8");
const importer = /"Importing as speedscope json file"\),([\w$]+)\(/.exec(source)[1];
const before = source.slice(0, source.lastIndexOf("console.log(`speedscope v"));

// Stands for whatever of a browser is touched on the way.
const anything = new Proxy(function () {}, {
  get: (_, key) => (key === Symbol.toPrimitive ? () => "" : anything),
  apply: () => anything,
  construct: () => anything,
  set: () => true,
});
const page = {
  console, TextDecoder, TextEncoder, URL, setTimeout, performance,
  document: anything, navigator: anything, location: anything, localStorage: anything, fetch: anything,
  requestAnimationFrame: () => 0, addEventListener: () => {}, matchMedia: () => anything,
};
page.window = page.self = page.globalThis = page;
vm.createContext(page);
vm.runInContext(`${before}globalThis.importSpeedscope=${importer};})();`, page);

const [profile, ...others] = page.importSpeedscope(JSON.parse(fs.readFileSync(file, "utf8"))).profiles;
const stacks = {};
const names = [];
let last = 0;
profile.forEachCall(
  (node, value) => { note(value); names.push(node.frame.name); },
  (node, value) => { note(value); names.pop(); },
);
function note(value) {
  if (value > last) {
    const stack = names.join(";");
    stacks[stack] = (stacks[stack] || 0) + value - last;
  }
  last = value;
}
console.log(JSON.stringify({
  profiles: 1 + others.length, total: profile.getTotalWeight(), unit: profile.getWeightUnit(), stacks,
}));
