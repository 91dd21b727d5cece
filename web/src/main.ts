// Unpacks the data in the page, and shows it as the kind of page it is for.

import { recordingOf } from "./data.ts";
import { differenceOf } from "./difference.ts";
import { DifferencePage } from "./difference_page.ts";
import { diveOf } from "./dive_data.ts";
import { diveDifferenceOf } from "./dive_difference.ts";
import { DiveDifferencePage } from "./dive_difference_page.ts";
import { DivePage } from "./dive_page.ts";
import { make } from "./dom.ts";
import { RecordingPage } from "./recording_page.ts";
import { type Unpacked, unpack } from "./unpack.ts";
import { shown } from "./words.ts";

function pageOf(unpacked: Unpacked): { show(into: HTMLElement): void | Promise<void> } {
  switch (unpacked.page) {
    case "dive":
      return new DivePage(diveOf(unpacked));
    case "dive difference":
      return new DiveDifferencePage(diveDifferenceOf(unpacked));
    case "difference":
      return new DifferencePage(differenceOf(unpacked));
    default:
      return new RecordingPage(recordingOf(unpacked));
  }
}

async function start(): Promise<void> {
  const into = document.getElementById("page")!;
  into.replaceChildren(make("p", { role: "status" }, "Unpacking …"));
  const data = document.getElementById("data");
  try {
    const page = pageOf(await unpack(data?.textContent ?? ""));
    await page.show(into);
    Object.assign(window, { dbtimePage: page });
    performance.mark("all drawn");
    document.documentElement.dataset.ready = "yes";
  } catch (e) {
    const why = e instanceof Error ? e.message : String(e);
    into.replaceChildren(make("p", { class: "trouble", role: "alert" }, `This page is damaged: ${shown(why)}. Get another copy, or create it again with 'dbtime html'.`));
    document.documentElement.dataset.ready = "no";
  }
}

void start();
