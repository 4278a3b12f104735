// The dialogs of the page: names, and finishing.

import { attempt, element } from "/assets/common.js";
import { isChain, model } from "./model.js";

const $ = (id) => document.getElementById(id);
const labels = () => Object.keys(model.state.names);
const ASKED = { state_1: "Before the action, the object is ", action: "The action is ", state_2: "After the action, the object is " };
const WORDS = { fit: "Fitting and judging …", report: "Writing the report …" };
const ABOUT = {
  csv: "tables for spreadsheets", jsonl: "a line per clip", webvtt: "subtitles for players", coco: "boxes and frames",
  cvat: "for CVAT", labelstudio: "for Label Studio", rerun: "for the Rerun viewer", crops: "pictures of both states",
  lerobot: "a copy of the dataset with subtasks", "lerobot-sidecar": "subtasks in a file beside it",
  "lerobot-subtask-index": "a copy with subtask indices", sarm: "a copy with stages for reward models",
};
let started = false; // whether this tab asked to write

/** Connect the dialogs; ``tell`` sends a change to the server. */
export function setUpDialogs(tell) {
  $("names").addEventListener("click", () => {
    showNames();
    $("names-dialog").showModal();
    $("name-state_1").select();
  });
  $("names-cancel").addEventListener("click", () => $("names-dialog").close());
  $("names-form").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => {
      const names = Object.fromEntries(labels().map((label) => [label, $(`name-${label}`).value]));
      if (await tell("names", names)) $("names-dialog").close();
    });
  });
  $("finish").addEventListener("click", () => {
    started = model.state.finish.running;
    showFormats();
    showFinish();
    $("finish-dialog").showModal();
  });
  $("finish-close").addEventListener("click", () => $("finish-dialog").close());
  $("finish-go").addEventListener("click", () => {
    started = true;
    const formats = [...$("formats").querySelectorAll("input:checked")].map((each) => each.value);
    tell("finish", { formats });
  });
}

/** A field for each name; in a chain they are asked for by number. */
function showNames() {
  $("name-fields").replaceChildren(...labels().map((label) => {
    const asked = isChain() ? `${label.startsWith("state") ? "State" : "Action"} ${label.split("_")[1]} is ` : ASKED[label];
    const field = element("input", { type: "text", id: `name-${label}`, maxLength: 60, required: true, value: model.state.names[label] });
    return element("label", { class: "field" }, asked, field);
  }));
}

function showFormats() {
  if ($("formats").querySelector("input")) return;
  for (const { name, possible } of model.state.formats) {
    $("formats").append(element("label", { class: "format" },
      element("input", { type: "checkbox", value: name, disabled: !possible }),
      element("span", {}, element("strong", {}, name), " ", element("span", { class: "muted" }, ABOUT[name] || ""))));
  }
}

/** Show how far the writing is. */
export function showFinish() {
  const { finish, folder } = model.state;
  $("finish-folder").textContent = folder;
  $("finish-go").disabled = finish.running;
  $("finish-progress").hidden = !finish.running;
  const done = started && !finish.running && finish.written.length;
  $("finish-go").textContent = done ? "Write again" : "Write";
  $("finish-go").className = done ? "quiet" : "primary";
  for (const id of ["finish-report", "finish-studio"]) $(id).hidden = !done;
  $("finish-stage").textContent = finish.running
    ? WORDS[finish.stage] || `Writing ${finish.stage} …`
    : started ? finish.problem || (done ? "Written:" : "") : "";
  $("finish-written").replaceChildren(...(started ? finish.written : []).map((path) => element("li", {}, element("code", {}, element("bdi", {}, path)))));
}
