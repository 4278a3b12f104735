// The timeline of the selected clip: change profile, actions with edges to drag, tracklets to click.

import { element } from "/assets/common.js";
import { actionLabels, model, name, seconds, snap, span, stateNumbers, framesFrom } from "./model.js";

const SVG = "http://www.w3.org/2000/svg";
const place = document.getElementById("timeline");
let acts = {}; // what the page does: seek(time), setAction(start, end), setTracklet(index, value)
let actions = []; // [start, end] of each as shown: dragged, or as found; null where there is none
let current = 0; // the action that keys and buttons move: of a chain, the one that was touched last
let drawn = []; // per action its lane, bar and handles
let playhead;
let following = 0; // pointers that drag something

export function onAct(actions) {
  acts = actions;
}

/** Whether something is being dragged; the timeline must then not be drawn anew. */
export const isBusy = () => following > 0;

/** The interval of the current action as it is shown. */
export const shownAction = () => actions[current];

/** The number of the current action. */
export const actionNumber = () => current + 1;

/** Make the next action of a chain the current one. */
export function chooseNext() {
  choose((current + 1) % drawn.length);
}

function choose(k) {
  current = k;
  drawn.forEach(({ lane }, each) => lane.classList.toggle("current", drawn.length > 1 && each === k));
}

const share = (time) => {
  const [start, end] = model.clip.extent;
  return Math.min(Math.max((time - start) / (end - start || 1), 0), 1);
};
const percent = (time) => `${(100 * share(time)).toFixed(3)}%`;

function timeAt(event) {
  const box = drawn[0].lane.getBoundingClientRect();
  const [start, end] = model.clip.extent;
  const along = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  return start + along * (end - start);
}

/** Draw the timeline of the clip that was read. */
export function show() {
  const clip = model.clip;
  const focused = document.activeElement?.dataset?.key;
  const labels = actionLabels();
  actions = labels.map((_, k) => {
    const found = clip.answer.actions[k];
    const shown = model.state.phase === "refitting" ? correctedAction(clip, k) || found : found || correctedAction(clip, k);
    return shown ? [...shown] : null;
  });
  drawn = labels.map((label, k) => actionLane(clip, label, k));
  current = Math.min(current, labels.length - 1);
  place.replaceChildren(changeLane(clip), ...drawn.map(({ lane }) => lane), ...trackletLanes(clip), ruler(clip));
  playhead = element("div", { class: "playhead" });
  place.append(playhead);
  labels.forEach((_, k) => showAction(k));
  choose(current);
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function correctedAction(clip, k) {
  const row = clip.corrections.find((each) => ["action", "confirm"].includes(each.kind) && ["", String(k + 1)].includes(each.value) && each.start !== null && each.end !== null);
  return row ? [row.start, row.end] : null;
}

export function move(time) {
  if (playhead && model.clip) playhead.style.left = `calc(var(--gutter) + (100% - var(--gutter)) * ${share(time).toFixed(5)})`;
}

/** Move an edge of the current action (0 start, 1 end) by frames, without saving. */
export function nudge(edge, frames) {
  const action = actions[current];
  if (!action) return;
  setEdge(edge, framesFrom(snap(action[edge]), frames));
  acts.seek(action[edge]);
  acts.changedAction();
}

export function setEdge(edge, time) {
  const [first, last] = model.clip.extent;
  const to = Math.min(Math.max(time, first), last);
  const action = actions[current] ?? (edge === 0 ? [to, Math.min(to + 1, last)] : [Math.max(to - 1, first), to]);
  actions[current] = action;
  action[edge] = to;
  if (action[1] <= action[0]) {
    if (edge === 0) action[1] = framesFrom(action[0], 1);
    else action[0] = framesFrom(action[1], -1);
  }
  showAction(current);
}

// --- lanes ------------------------------------------------------------------------------------------

function changeLane(clip) {
  const holder = element("div", { class: "lane change-lane", title: "When the picture changes for good", onpointerdown: scrub });
  if (clip.change) {
    const drawing = document.createElementNS(SVG, "svg");
    drawing.setAttribute("viewBox", "0 0 1000 100");
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("aria-hidden", "true");
    const { start, step, rates } = clip.change;
    const peak = Math.max(...rates, 1e-9);
    const points = rates.map((rate, k) => `${(1000 * share(start + step * (k + 0.5))).toFixed(1)},${(98 - 92 * rate / peak).toFixed(1)}`);
    const area = document.createElementNS(SVG, "polygon");
    area.setAttribute("class", "change");
    area.setAttribute("points", `${1000 * share(start)},98 ${points.join(" ")} ${1000 * share(start + step * rates.length)},98`);
    drawing.append(area);
    holder.append(drawing);
  }
  holder.append(element("span", { class: "lane-name" }, "change"));
  return holder;
}

/** The lane of an action with its bar and its edges; k counts from 0. */
function actionLane(clip, label, k) {
  const words = label.replace("_", " ");
  const bar = element("div", { class: "action-bar" }, label === "action" ? "" : String(k + 1));
  const handles = [0, 1].map((edge) => element("div", {
    class: `handle ${edge ? "end" : "start"}`, role: "slider", tabIndex: 0, "data-key": `edge-${k ? `${k}-` : ""}${edge}`,
    "aria-label": `${edge ? "End" : "Start"} of ${label === "action" ? "the action" : words}`,
    "aria-valuemin": clip.extent[0].toFixed(2), "aria-valuemax": clip.extent[1].toFixed(2),
    onpointerdown: (event) => drag(event, k, edge), onkeydown: (event) => keyOnEdge(event, k, edge),
    onfocus: () => touch(k),
  }));
  const lane = element("div", { class: "lane action-lane", onpointerdown: (event) => draw(event, k) },
    element("span", { class: "lane-name", title: name(label) }, name(label)), bar, ...handles);
  const found = clip.found?.actions[k];
  if (found) lane.append(ghost(found));
  return { lane, bar, handles };
}

/** Make an action the current one; what was moved of another is saved before. */
function touch(k) {
  if (k === current) return;
  acts.saveAction();
  choose(k);
}

/** Where the action was found before corrections. */
function ghost([start, end]) {
  const made = element("div", { class: "ghost", title: `found at ${span([start, end])}` });
  made.style.left = percent(start);
  made.style.width = `${(100 * (share(end) - share(start))).toFixed(3)}%`;
  return made;
}

function showAction(k) {
  const { bar, handles } = drawn[k];
  const action = actions[k];
  bar.hidden = !action;
  handles.forEach((handle) => { handle.hidden = !action; });
  if (!action) return;
  bar.style.left = percent(action[0]);
  bar.style.width = `${(100 * (share(action[1]) - share(action[0]))).toFixed(3)}%`;
  bar.title = `${name(actionLabels()[k])} ${span(action)}`;
  handles.forEach((handle, edge) => {
    handle.style.left = percent(action[edge]);
    handle.setAttribute("aria-valuenow", action[edge].toFixed(2));
    handle.setAttribute("aria-valuetext", seconds(action[edge]));
  });
}

function trackletLanes(clip) {
  const ends = []; // of the last tracklet of each lane
  const lanes = [];
  const shown = clip.tracklets.filter((each) => each.end > each.start);
  // Those with a state first, so that they share the top lanes.
  for (const tracklet of [...shown].sort((a, b) => (b.state > 0) - (a.state > 0) || a.start - b.start)) {
    let k = ends.findIndex((end) => end.every(([from, to]) => tracklet.end <= from + 1e-6 || tracklet.start >= to - 1e-6));
    if (k < 0) {
      k = ends.push([]) - 1;
      lanes.push(element("div", { class: "lane tracklet-lane", onpointerdown: scrub }));
    }
    ends[k].push([tracklet.start, tracklet.end]);
    lanes[k].append(trackletButton(tracklet));
  }
  if (lanes.length) lanes[0].prepend(element("span", { class: "lane-name" }, "states"));
  return lanes;
}

function trackletButton(tracklet) {
  const says = tracklet.correction === "not_object" ? "not the object" : tracklet.correction && (name(`state_${tracklet.correction}`) ?? tracklet.correction);
  const is = tracklet.state ? name(`state_${tracklet.state}`) : "no state";
  const kind = tracklet.correction === "not_object" ? "not" : tracklet.state ? `state-${tracklet.state}` : "";
  const label = `${span([tracklet.start, tracklet.end])}: ${is}${says ? `, you said ${says}` : ""}`;
  const made = element("button", {
    type: "button", class: `tracklet ${kind}${says ? " corrected" : ""}`, "data-key": `tracklet-${tracklet.index}`,
    "data-index": String(tracklet.index), "aria-label": label, title: `${label}. Click: say what it shows`,
    onpointerdown: (event) => event.stopPropagation(),
    onclick: () => cycle(tracklet),
    onfocus: () => acts.seek((tracklet.start + tracklet.end) / 2),
    onkeydown: (event) => keyOnTracklet(event, tracklet),
  }, tracklet.correction === "not_object" ? "✕" : tracklet.correction);
  made.style.left = percent(tracklet.start);
  made.style.width = `calc(${(100 * (share(tracklet.end) - share(tracklet.start))).toFixed(3)}% - 1px)`;
  return made;
}

/** A click goes on to the next of: state 1, state 2 and so on, not the object, as found. */
async function cycle(tracklet) {
  const order = [...stateNumbers(), "not_object", ""];
  const at = order.indexOf(tracklet.correction);
  for (let k = 1; k <= order.length; k += 1) {
    const value = order[(at + k) % order.length];
    // What contradicts other corrections is passed over; as found is always possible.
    if (value === tracklet.correction || await acts.setTracklet(tracklet.index, value, { quiet: value !== "" })) return;
  }
}

function keyOnTracklet(event, tracklet) {
  const value = stateNumbers().includes(event.key) ? event.key : { d: "not_object", Backspace: "", Delete: "" }[event.key];
  if (value === undefined || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  acts.setTracklet(tracklet.index, value);
}

function ruler(clip) {
  const [start, end] = clip.extent;
  const steps = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
  const step = steps.find((each) => (end - start) / each <= 10) || 1200;
  const made = element("div", { class: "lane ruler", onpointerdown: scrub });
  for (let tick = Math.ceil(start / step) * step; tick <= end + 1e-9; tick += step) {
    const mark = element("span", { class: "tick-mark" }, `${+tick.toFixed(2)} s`);
    mark.style.left = percent(tick);
    made.append(mark);
  }
  return made;
}

// --- pointer and keys -------------------------------------------------------------------------------

function follow(event, moved, ended = () => {}) {
  event.preventDefault();
  const target = event.currentTarget;
  target.setPointerCapture(event.pointerId);
  following += 1;
  const onMove = (each) => moved(each);
  const onUp = (each) => {
    target.removeEventListener("pointermove", onMove);
    target.removeEventListener("pointerup", onUp);
    target.removeEventListener("pointercancel", onUp);
    following -= 1;
    ended(each);
  };
  target.addEventListener("pointermove", onMove);
  target.addEventListener("pointerup", onUp);
  target.addEventListener("pointercancel", onUp);
}

function scrub(event) {
  if (event.button > 0) return;
  acts.seek(timeAt(event));
  follow(event, (each) => acts.seek(timeAt(each)));
}

function drag(event, k, edge) {
  if (event.button > 0) return;
  event.stopPropagation();
  event.currentTarget.focus();
  touch(k);
  const action = actions[k];
  const before = [...action];
  follow(event, (each) => {
    setEdge(edge, snap(timeAt(each)));
    acts.seek(action[edge]);
  }, () => {
    if (before.some((time, k) => Math.abs(time - action[k]) > 1e-6)) acts.setAction(...action);
  });
}

/** Draw a new interval on an action's lane; a click alone moves the playhead. */
function draw(event, k) {
  if (event.button > 0) return;
  touch(k);
  const begun = timeAt(event);
  const before = actions[k] && [...actions[k]];
  let moved = false;
  follow(event, (each) => {
    const now = timeAt(each);
    const far = Math.abs(share(now) - share(begun)) * drawn[k].lane.clientWidth > 6;
    if (!moved && !far) return;
    moved = true;
    const action = [snap(Math.min(begun, now)), snap(Math.max(begun, now))];
    if (action[1] <= action[0]) action[1] = framesFrom(action[0], 1);
    actions[k] = action;
    acts.seek(now);
    showAction(k);
  }, (each) => {
    if (moved && each.type === "pointerup") acts.setAction(...actions[k]);
    else if (moved) {
      actions[k] = before;
      showAction(k);
    } else acts.seek(begun);
  });
}

function keyOnEdge(event, k, edge) {
  const frames = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[event.key];
  if (!frames || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  touch(k);
  nudge(edge, event.shiftKey ? 10 * frames : frames);
}
