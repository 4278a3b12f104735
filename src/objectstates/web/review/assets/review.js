// The review page: connects list, player and timeline with the server.

import { api, attempt, count, element, listen, shortcuts, toast } from "/assets/common.js";
import * as list from "./list.js";
import { difference, isChain, model, name, readClip, readFrames, readState, snap } from "./model.js";
import * as player from "./player.js";
import { setUpDialogs, showFinish } from "./dialogs.js";
import * as timeline from "./timeline.js";

const $ = (id) => document.getElementById(id);
let pendingAction = null; // timer of an action that is being nudged
let announced = "";

// --- reading ----------------------------------------------------------------------------------------

let reading = null;
let again = false;

/** Read all that is shown; calls meanwhile are answered by one more reading. */
async function refresh() {
  if (reading) {
    again = true;
    return reading;
  }
  reading = attempt(async () => {
    do {
      again = false;
      await readState();
      if (!model.rows.has(model.selected)) model.selected = firstClip();
      if (!isEditing() && model.selected !== null) await readClip(model.selected);
      showAll();
    } while (again);
  });
  await reading;
  reading = null;
}

/** Whether an edge of the action is being moved: the clip then stays as it is shown. */
const isEditing = () => Boolean(pendingAction) || timeline.isBusy();

function firstClip() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  return model.rows.has(wanted) ? wanted : model.state.clips[0]?.id ?? null;
}

async function select(id) {
  if (id === null || id === undefined) return;
  await saveAction();
  saveNote();
  model.selected = id;
  model.frames = [];
  history.replaceState(null, "", `#${encodeURIComponent(id)}`);
  list.show();
  list.reveal();
  await attempt(async () => {
    if (await readClip(id)) {
      showClip();
      await readFrames(id);
    }
  });
}

function move(by) {
  const ids = list.listed();
  const at = ids.indexOf(model.selected);
  select(ids[at < 0 ? 0 : Math.min(Math.max(at + by, 0), ids.length - 1)]);
}

// --- showing ----------------------------------------------------------------------------------------

function showAll() {
  const { state } = model;
  document.title = `Review ${state.folder}`;
  $("folder").textContent = state.folder;
  const labels = Object.keys(state.names);
  $("names").classList.toggle("chain", labels.length > 3);
  $("names").replaceChildren(...labels.flatMap((label, k) => (k ? [" → ", tag(label)] : [tag(label)])));
  $("names").setAttribute("aria-label", `Names: ${labels.map(name).join(", ")}. Change them`);
  $("undo").disabled = state.undo === null;
  $("redo").disabled = state.redo === null;
  $("finish").title = state.saved ? "The result in the folder has all corrections" : "Write the corrected result";
  showStatus();
  showVerdict();
  showNext();
  list.show();
  if (model.clip && !isEditing()) showClip();
  showFinish();
  announce();
  document.body.dataset.version = String(state.version); // of the answers that are shown
}

const tag = (label) => element("span", { class: `tag ${label.startsWith("action") ? "action" : label.replace("_", "-")}` }, name(label));

function showStatus() {
  const { phase, problem } = model.state;
  const words = {
    refitting: "Refitting all clips …",
    preliminary: "Quick answer; the exact one follows …",
    exact: model.state.verdict ? "Up to date; the verdict follows …" : "Up to date",
    judging: "Up to date; judging …",
    judged: "Up to date",
    failed: problem,
  };
  $("status").textContent = words[phase] || "";
  $("status").dataset.phase = phase;
}

function showVerdict() {
  const { verdict } = model.state;
  $("verdict").hidden = !verdict;
  if (!verdict) return;
  $("findings").replaceChildren(
    ...verdict.sides.map((side) => element("span", {}, element("span", { class: `finding ${side.finding}` }, `${side.name} ${side.word}`), " ", element("span", { class: "muted" }, side.expected))),
    element("span", { class: "why" }, verdict.remedy ? "why, and what to do" : "why"));
  $("why").textContent = [verdict.why, verdict.remedy, verdict.see && `See ${verdict.see}.`].filter(Boolean).join(" ");
}

function showNext() {
  const id = model.state.next.find((each) => each !== model.selected) ?? null;
  $("next").hidden = id === null;
  $("next").dataset.clip = id ?? "";
  $("next").replaceChildren(element("span", {}, "Look at this next ", element("kbd", {}, "n")), element("strong", {}, element("bdi", {}, id ?? "")),
    element("span", { class: "muted" }, "Its answer is the least sure: look whether it is right."));
}

let shown = ""; // the clip as it is shown

function showClip() {
  const { clip } = model;
  // What is the same is left alone: a click must not lose the element it began on.
  const text = JSON.stringify([clip, model.state.names, model.state.phase === "refitting"]);
  if (text === shown) return;
  shown = text;
  $("clip-name").textContent = clip.id;
  $("clip-chips").replaceChildren(...list.marks(clip));
  showWas(clip);
  player.show();
  timeline.show();
  timeline.move(player.time());
  const has = (kind) => clip.kinds.includes(kind);
  $("confirm").setAttribute("aria-pressed", String(has("confirm")));
  $("confirm").disabled = !clip.answer.actions.some(Boolean);
  $("exclude").setAttribute("aria-pressed", String(has("exclude")));
  $("no-change").setAttribute("aria-pressed", String(has("no_change")));
  $("clear").hidden = !clip.kinds.length;
  if (document.activeElement !== $("note") || $("note").dataset.clip !== clip.id) {
    $("note").value = clip.note;
    $("note").dataset.clip = clip.id;
  }
}

function showWas(clip) {
  const reason = clip.answer.left_out;
  const before = clip.changed_now ? clip.before : clip.changed ? clip.found : null;
  $("was").hidden = !reason && !before;
  $("was").textContent = reason ? `Left out: ${reason}.` : before ? `Changed: ${difference(before, clip.answer)}.` : "";
}

/** Tell screen readers, and all others in the list, what a refit changed. */
function announce() {
  const { state } = model;
  if (!["exact", "judging", "judged"].includes(state.phase)) {
    announced = "";
    return;
  }
  const changed = state.clips.filter((row) => row.changed_now);
  const text = changed.length
    ? `${count(changed.length, "clip")} changed: ${changed.slice(0, 3).map((row) => `${row.id}, ${difference(row.before, row.answer)}`).join("; ")}${changed.length > 3 ? "; …" : ""}`
    : "No other answer changed";
  if (text === announced) return;
  if (announced !== null && state.corrections) $("live").textContent = text;
  announced = text;
}

// --- what a person does ---------------------------------------------------------------------------

/** Tell the server; what it then shows comes with the next reading. */
async function tell(what, body = {}, { quiet = false } = {}) {
  const request = async () => {
    const { clip } = await api("POST", `api/${what}`, body);
    if ((what === "undo" || what === "redo") && clip && clip !== model.selected) await select(clip);
  };
  const done = await (quiet ? request().then(() => true, () => false) : attempt(request));
  await refresh();
  return done;
}

const tellClip = (what, body = {}, how = {}) => model.selected !== null && tell(what, { clip: model.selected, ...body }, how);

function changedAction() {
  shown = ""; // what is shown is no longer what the server said
  clearTimeout(pendingAction);
  pendingAction = setTimeout(saveAction, 500);
}

async function saveAction() {
  if (!pendingAction) return;
  clearTimeout(pendingAction);
  pendingAction = null;
  const [start, end] = timeline.shownAction();
  await tellClip("action", { start, end, action: timeline.actionNumber() });
}

function setAction(start, end) {
  shown = "";
  clearTimeout(pendingAction);
  pendingAction = null;
  tellClip("action", { start, end, action: timeline.actionNumber() });
}

/** In a chain, the keys and buttons for edges are those of one action: go on to the next. */
async function nextAction() {
  if (!isChain()) return;
  await saveAction();
  timeline.chooseNext();
  if (timeline.shownAction()) player.seek(timeline.shownAction()[0]);
}

function setEdgeHere(edge) {
  if (!model.clip) return;
  timeline.setEdge(edge, snap(player.time() - 0.002));
  changedAction();
}

function saveNote() {
  const note = $("note");
  const clip = note.dataset.clip;
  if (!clip || model.clip?.id !== clip || note.value === model.clip.note) return;
  model.clip.note = note.value;
  attempt(() => api("POST", "api/note", { clip, text: note.value }));
}

function toggleLoop() {
  const action = timeline.shownAction();
  if (player.isLooping() || !action) {
    player.setLoop(null);
    return;
  }
  const [first, last] = model.clip.extent;
  player.setLoop([Math.max(action[0] - 0.7, first), Math.min(action[1] + 0.7, last)]);
  if (!player.isPlaying()) player.toggle();
}

function seek(time) {
  player.seek(time);
}

async function confirmAndGoOn() {
  await saveAction();
  await tellClip("confirm");
}

// --- wiring -----------------------------------------------------------------------------------------

player.onMove(timeline.move);
timeline.onAct({
  seek,
  setAction,
  changedAction,
  saveAction,
  setTracklet: (index, value, how = {}) => tellClip("tracklet", { tracklet: index, value }, how),
});
list.onChoose((id) => {
  select(id);
  if (matchMedia("(max-width: 899px)").matches) $("clip").scrollIntoView();
});
setUpDialogs(tell);

const keys = shortcuts({
  j: { does: "next clip", run: () => move(1) },
  k: { does: "previous clip", run: () => move(-1) },
  n: { does: "look at this next", run: () => $("next").dataset.clip && select($("next").dataset.clip) },
  Space: { does: "play, pause", run: player.toggle },
  l: { does: "loop the action", run: toggleLoop },
  ArrowLeft: { does: "one frame back", run: () => player.step(-1) },
  ArrowRight: { does: "one frame forth", run: () => player.step(1) },
  i: { does: "the action begins at this frame", run: () => setEdgeHere(0) },
  o: { does: "the action ends at this frame", run: () => setEdgeHere(1) },
  "[": { does: "begin one frame earlier", run: () => timeline.nudge(0, -1) },
  "{": { does: "begin one frame later", run: () => timeline.nudge(0, 1) },
  "]": { does: "end one frame later", run: () => timeline.nudge(1, 1) },
  "}": { does: "end one frame earlier", run: () => timeline.nudge(1, -1) },
  a: { does: "the next action of a chain", run: nextAction },
  c: { does: "right as found", run: confirmAndGoOn },
  h: { does: "nothing happens in this clip", run: () => tellClip("no_change") },
  x: { does: "exclude this clip", run: () => tellClip("exclude") },
  u: { does: "undo", run: () => tell("undo") },
  U: { does: "redo", run: () => tell("redo") },
  m: { does: "write a note", run: () => $("note").focus() },
  "/": { does: "search", run: () => $("search").focus() },
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && ["note", "search"].includes(event.target.id)) event.target.blur();
});

for (const [id, run] of Object.entries({
  keys, play: player.toggle, loop: toggleLoop, confirm: confirmAndGoOn,
  back: () => player.step(-1), forth: () => player.step(1),
  begins: () => setEdgeHere(0), ends: () => setEdgeHere(1),
  previous: () => move(-1), following: () => move(1),
  "no-change": () => tellClip("no_change"), exclude: () => tellClip("exclude"), clear: () => tellClip("clear"),
  undo: () => tell("undo"), redo: () => tell("redo"),
  next: () => select($("next").dataset.clip),
})) $(id).addEventListener("click", run);
$("speed").addEventListener("change", (event) => { $("video").playbackRate = Number(event.target.value); });
$("note").addEventListener("change", saveNote);
addEventListener("pagehide", saveNote);
for (const id of ["search", "filter", "order"]) $(id).addEventListener("input", () => list.show());

listen("review.answers", ({ phase }) => {
  if (phase !== "refitting" && phase !== "judging") refresh();
  else if (model.state) { // nothing but this has changed
    model.state.phase = phase;
    showStatus();
  }
});
listen("review.changed", refresh);
listen("review.finish", refresh);
listen("hello", refresh);
await refresh();
if (model.selected !== null) await attempt(() => readFrames(model.selected));
if (!model.state) toast("The review cannot be read.", { error: true });
