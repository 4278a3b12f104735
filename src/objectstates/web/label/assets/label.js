// The page of objectstates label: a frame after another, boxes, and what follows from them.

import { api, attempt, count, element, listen, shortcuts, toast } from "/assets/common.js";
import { BoxEditor, boxPicture } from "./boxes.js";
import { showProgress } from "./progress.js";

const $ = (id) => document.getElementById(id);
const SHOWN = 28; // labelled frames, at first
const seconds = (time) => `${time.toFixed(2)} s`;
const picture = (clip, time, side) => `frame?${new URLSearchParams({ clip, time, side })}`;

let state = null;
let frame = null; // the frame that is shown
let visited = []; // clip and time of earlier frames
let saving = Promise.resolve();
let timer = 0;
let wholeStrip = false; // whether all labelled frames are shown
let followed = null; // boxes that wait for confirmation

const editor = new BoxEditor($("overlay"), changed);

// --- the frame ------------------------------------------------------------------------------------

async function show(found, { remember = true } = {}) {
  if (frame && remember) visited.push({ clip: frame.clip, time: frame.time });
  frame = found;
  dropFollowed();
  $("empty").hidden = Boolean(found);
  editor.disabled = !found;
  if (!found) return describe();
  $("stage").style.setProperty("--aspect", found.width / found.height);
  $("stage").classList.add("loading");
  const image = $("picture");
  image.width = found.width;
  image.height = found.height;
  image.onload = () => $("stage").classList.remove("loading");
  image.src = picture(found.clip, found.time, 1280);
  editor.show(found);
  $("clip").value = found.clip;
  const range = $("time");
  range.min = found.start;
  range.max = found.end;
  range.value = found.time;
  range.setAttribute("aria-valuetext", seconds(found.time));
  describe();
  hint();
  showStrip();
}

/** What to do with a frame that has no labels yet. */
function hint() {
  if (frame.labelled) status("");
  else if (editor.proposals.length) status("The detector proposes a box: accept it, or drag another one.");
  else status(`Drag a box around the ${state.object}, from corner to corner.`);
}

function describe() {
  const has = editor.boxes.length;
  const proposed = frame && !has && editor.proposals.length;
  $("clip-name").textContent = frame ? frame.clip : "";
  $("clip-time").textContent = frame ? seconds(frame.time) : "";
  const tag = $("frame-tag");
  tag.hidden = !frame || (!frame.labelled && !proposed);
  tag.textContent = proposed ? (editor.proposals[0].sure ? "proposed" : "a doubtful proposal") : has ? "saved" : "not visible";
  const image = $("picture");
  image.alt = frame ? `Frame of ${frame.clip} at ${seconds(frame.time)}` : "";
  $("overlay").setAttribute("aria-label", frame ? `${image.alt}: ${has ? `${has} box${has > 1 ? "es" : ""}` : proposed ? "a proposed box" : "no box"}` : "no frame");
  $("accept").firstChild.textContent = followed?.frames.length ? "Keep and go on " : proposed ? "Accept the proposal " : "Next frame ";
  $("accept").disabled = !nextStep();
  $("follow").disabled = !has;
  $("delete").disabled = !has && !(frame?.labelled);
  $("previous").disabled = !visited.length;
  $("absent").disabled = !frame;
}

/** Whether there is anything to accept or to go on from; a frame without labels is skipped instead. */
function nextStep() {
  return Boolean(frame && (frame.labelled || editor.boxes.length || editor.proposals.length));
}

function status(text) {
  $("status").textContent = text;
}

async function goNext({ skip = false } = {}) {
  await saved();
  const body = skip && frame && !frame.labelled ? { clip: frame.clip, time: frame.time } : {};
  const { frame: found } = await api("POST", "api/next", body);
  await show(found);
}

async function open(clip, time) {
  await saved();
  await show(await api("POST", "api/frame", { clip, time }));
}

async function goBack() {
  const last = visited.pop();
  if (!last) return;
  await saved();
  await show(await api("POST", "api/frame", last), { remember: false });
}

// --- saving ---------------------------------------------------------------------------------------

function changed(boxes, { slowly = false, removed = false, drawn = false } = {}) {
  describe();
  clearTimeout(timer);
  timer = 0;
  if (slowly) timer = setTimeout(() => save(boxes), 350);
  else save(boxes, { removed, drawn });
}

/** Write the boxes of the frame; the server answers when they are on disk. */
function save(boxes, { removed = false, drawn = false } = {}) {
  timer = 0;
  dropFollowed();
  const at = { clip: frame.clip, time: frame.time };
  const sent = boxes.map(({ box, how }) => ({ box, how }));
  saving = saving.then(() => attempt(async () => {
    const found = await api("POST", removed && !sent.length ? "api/unlabel" : "api/label",
      removed && !sent.length ? at : { ...at, boxes: sent });
    if (frame?.clip === at.clip && frame.time === at.time) {
      frame.labelled = found.labelled;
      describe();
    }
    await refresh();
    status(sent.length ? "Saved." : removed ? "Deleted." : "Saved: not visible in this frame.");
    if (drawn && $("auto-follow").checked) follow();
  }));
  return saving;
}

function saved() {
  if (timer) {
    clearTimeout(timer);
    save(editor.boxes);
  }
  return saving;
}

async function refresh() {
  state = await api("GET", "api/state");
  showAll();
}

// --- actions --------------------------------------------------------------------------------------

const accept = () => attempt(async () => {
  if (!nextStep()) return status("There is no box yet: draw one, or say that the object is not visible, or skip the frame.");
  if (followed?.frames.length) {
    await keepFollowed();
  } else if (frame && !editor.boxes.length && editor.proposals.length) {
    editor.boxes = editor.proposals.map(({ box }) => ({ box: [...box], how: "proposed" }));
    await save(editor.boxes);
  }
  await goNext();
});

const absent = () => attempt(async () => {
  if (!frame) return;
  editor.boxes = [];
  await save([]);
  await goNext();
});

const remove = () => {
  if (editor.remove() || !frame?.labelled) return;
  save([], { removed: true });
};

async function follow() {
  await saved();
  if (!frame || !editor.boxes.length) return;
  const at = { clip: frame.clip, time: frame.time };
  status("Following the box through the clip…");
  await attempt(async () => {
    const found = await api("POST", "api/follow", at);
    if (frame?.clip !== at.clip || frame.time !== at.time || timer) return;
    showFollowed(found);
  });
}

// --- boxes that were followed ---------------------------------------------------------------------

function showFollowed(found) {
  const { frames } = found;
  followed = { ...found, first: frames[0]?.time ?? 0, last: frames.at(-1)?.time ?? 0 };
  $("followed").hidden = frames.length === 0;
  status(frames.length ? `Followed to ${count(frames.length, "frame")}: see whether ${frames.length === 1 ? "the box fits" : "the boxes fit"}.` : "The box could not be followed here.");
  if (!frames.length) followed = null;
  else {
    delete $("followed-film").dataset.placed;
    drawFollowed();
  }
  describe();
}

function drawFollowed() {
  const film = $("followed-film");
  const inside = ({ time }) => time >= followed.first && time <= followed.last;
  const kept = followed.frames.filter(inside).length;
  const made = followed.frames.map((each) => thumbnail(each, {
    "aria-pressed": String(inside(each)),
    "aria-label": `${seconds(each.time)}: ${inside(each) ? "kept" : "left out"}`,
    onclick: () => cutAt(each.time),
  }));
  const origin = thumbnail({ ...frame, boxes: editor.boxes }, { class: "origin", disabled: true });
  const place = made.findIndex((_, n) => followed.frames[n].time > followed.time);
  made.splice(place < 0 ? made.length : place, 0, origin);
  film.replaceChildren(...made);
  if (!film.dataset.placed) film.scrollLeft = origin.offsetLeft - film.offsetLeft - (film.clientWidth - origin.offsetWidth) / 2;
  film.dataset.placed = "yes";
  $("keep").textContent = kept === followed.frames.length && kept > 1 ? `Keep all ${kept}` : `Keep ${kept}`;
  $("keep").disabled = kept === 0;
}

/** Leave out a frame and those beyond it, or take it in again. */
function cutAt(time) {
  const times = followed.frames.map((each) => each.time);
  const inside = time >= followed.first && time <= followed.last;
  if (time < followed.time) followed.first = inside ? Math.min(...times.filter((t) => t > time), followed.time) : time;
  else followed.last = inside ? Math.max(...times.filter((t) => t < time), followed.time) : time;
  drawFollowed();
}

async function keepFollowed() {
  const { id, first, last } = followed;
  dropFollowed();
  const { accepted, state: found } = await api("POST", "api/accept", { id, first, last });
  state = found;
  showAll();
  status(`Kept ${count(accepted, "frame")}.`);
}

function dropFollowed() {
  followed = null;
  $("followed").hidden = true;
  describe();
}

// --- the strip, progress, finish ------------------------------------------------------------------

function thumbnail({ clip, time, width, height, boxes }, properties) {
  const image = element("img", { src: picture(clip, time, 200), alt: "", loading: "lazy", width, height });
  const made = element("button", { type: "button", ...properties }, image);
  made.append(boxPicture(width, height, boxes), element("span", { class: "at" }, seconds(time)));
  return made;
}

function showStrip() {
  const frames = state?.frames || [];
  $("strip-empty").hidden = frames.length > 0;
  const shown = frames.slice(wholeStrip ? 0 : -SHOWN).reverse();
  $("strip-more").hidden = frames.length <= SHOWN;
  $("strip-more").textContent = wholeStrip ? "Show the last ones" : `Show all ${frames.length}`;
  $("strip").replaceChildren(...shown.map((each) => {
    const is = frame && each.clip === frame.clip && Math.abs(each.time - frame.time) < 0.002;
    const what = each.boxes.length ? (each.by_hand ? "" : ", followed") : ", not visible";
    const text = `${each.clip} at ${seconds(each.time)}${what}`;
    const made = thumbnail(each, { "aria-current": String(is), "aria-label": text, title: text, onclick: () => attempt(() => open(each.clip, each.time)) });
    made.lastChild.textContent = `${seconds(each.time)} ${each.boxes.length ? "" : "not visible "}${each.clip}`; // its end may be cut
    return made;
  }));
}

function showAll() {
  document.title = `Label ${state.object} · objectstates`;
  $("title").textContent = `Draw a box around the ${state.object}`;
  showClips();
  showProgress(state);
  showStrip();
}

function showClips() {
  const select = $("clip");
  const key = JSON.stringify(state.clips);
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  select.replaceChildren(...state.clips.map(({ id, failed }) => element("option", { value: id, disabled: Boolean(failed) }, failed ? `${id} (cannot be read)` : id)));
  if (frame) select.value = frame.clip;
}

function update(data) {
  if (!state) return;
  const had = state.training.has_detector;
  const other = data.counts.boxes !== state.counts.boxes || data.counts.frames !== state.counts.frames;
  Object.assign(state, data);
  if (other) attempt(refresh); // another tab has labelled
  showClips();
  showProgress(state);
  if (!had && state.training.has_detector) newDetector();
}

/** Show the first proposals at once, if the frame waits for a box. */
function newDetector() {
  toast("The detector now proposes boxes: Enter accepts.");
  const waits = () => frame && !frame.labelled && !editor.boxes.length && !editor.drag; // a drag goes on
  if (!waits()) return;
  const { clip, time } = frame;
  attempt(async () => {
    const found = await api("POST", "api/frame", { clip, time });
    if (waits() && frame.clip === clip && frame.time === time) await show(found, { remember: false });
  });
}

$("accept").addEventListener("click", accept);
$("absent").addEventListener("click", absent);
$("follow").addEventListener("click", follow);
$("delete").addEventListener("click", remove);
$("previous").addEventListener("click", () => attempt(goBack));
$("skip").addEventListener("click", () => attempt(() => goNext({ skip: true })));
$("keep").addEventListener("click", () => attempt(keepFollowed));
$("reject").addEventListener("click", () => { dropFollowed(); status("Rejected: only your own box is kept."); });
$("clip").addEventListener("change", async () => {
  if (!await attempt(() => open($("clip").value))) $("clip").value = frame?.clip ?? "";
});
$("strip-more").addEventListener("click", () => {
  wholeStrip = !wholeStrip;
  showStrip();
});
$("time").addEventListener("keydown", (event) => event.stopPropagation()); // arrows are the slider's
$("time").addEventListener("change", () => frame && attempt(() => open($("clip").value, Number($("time").value))));
$("finish").addEventListener("click", () => attempt(async () => {
  await saved();
  state = await api("POST", "api/finish", {});
  showAll();
}));
$("copy").addEventListener("click", () => attempt(async () => {
  await navigator.clipboard.writeText($("command").textContent);
  toast("Copied.");
}));

const arrow = (dx, dy) => (event) => editor.nudge(dx, dy, event.shiftKey);
const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const keys = {
  Enter: { does: "accept what is shown, and go on", run: accept },
  n: { does: "next frame", run: () => attempt(() => goNext({ skip: true })) },
  p: { does: "previous frame", run: () => attempt(goBack) },
  v: { does: "the object is not visible", run: absent },
  f: { does: "follow the box through the clip", run: follow },
  d: { does: "delete the box", run: remove },
  Delete: { does: "delete the box", run: remove },
  b: { does: "a new box in the middle", run: () => frame && editor.addInMiddle() },
  o: { does: "choose another box", run: () => editor.chooseOther() },
  Escape: { does: "reject the followed boxes", run: () => followed && $("reject").click() },
};
for (const [name, step] of Object.entries(arrows)) {
  keys[name] = { does: "move the box", run: arrow(...step) };
  keys[`Shift+${name}`] = { does: "make the box larger or smaller", run: arrow(...step) };
}
const showKeys = shortcuts(keys);
$("keys").addEventListener("click", showKeys);
addEventListener("resize", () => editor.draw());
addEventListener("beforeunload", () => saved());

listen("label.state", update);
listen("label.progress", update);
listen("hello", () => state && attempt(refresh));
attempt(async () => {
  await refresh();
  await goNext();
  $("overlay").focus({ preventScroll: true });
});
