// The list of clips: answers, confidence, marks of what changed; filter, order and search.

import { count, element } from "/assets/common.js";
import { difference, inWords, isUnsure, model } from "./model.js";

const place = document.getElementById("list");
const items = new Map(); // list items by clip, with the row they show
const FILTERS = {
  all: () => true,
  unsure: isUnsure,
  changed: (row) => row.changed || row.changed_now,
  corrected: (row) => row.kinds.length > 0,
  left: (row) => Boolean(row.answer.left_out) || row.kinds.includes("exclude") || row.kinds.includes("no_change"),
  noted: (row) => row.noted,
};
let whenChosen = () => {};

export function onChoose(callback) {
  whenChosen = callback;
}

/** The ids of the clips that are listed, in order. */
export function listed() {
  const search = document.getElementById("search").value.trim().toLowerCase();
  const wanted = FILTERS[document.getElementById("filter").value];
  const rows = model.state.clips.filter((row) => wanted(row) && row.id.toLowerCase().includes(search));
  const order = document.getElementById("order").value;
  if (order === "unsure") rows.sort((a, b) => (a.confidence ?? 2) - (b.confidence ?? 2));
  if (order === "next") {
    const rank = new Map(model.state.next.map((id, k) => [id, k]));
    rows.sort((a, b) => (rank.get(a.id) ?? 1e9) - (rank.get(b.id) ?? 1e9));
  }
  return rows.map((row) => row.id);
}

/** Show the rows of the state; those that are unchanged are left alone. */
export function show() {
  const ids = listed();
  const shown = ids.map((id) => item(model.rows.get(id)));
  const same = place.childElementCount === shown.length && shown.every((each, k) => place.children[k] === each);
  if (!same) place.replaceChildren(...shown);
  for (const { node, id } of items.values()) {
    if (id === model.selected) node.firstChild.setAttribute("aria-current", "true");
    else node.firstChild.removeAttribute("aria-current");
  }
  const total = model.state.clips.length;
  document.getElementById("count").textContent = ids.length === total
    ? `${count(total, "clip")}, ${model.state.clips.filter((row) => row.kinds.length).length} corrected`
    : `${ids.length} of ${count(total, "clip")}`;
}

/** Bring the selected clip into view. */
export function reveal() {
  const button = items.get(model.selected)?.node.firstChild;
  if (!button) return;
  const [inner, outer] = [button.getBoundingClientRect(), place.getBoundingClientRect()];
  if (place.scrollHeight <= place.clientHeight + 1) return; // on a phone, the page scrolls
  if (inner.top < outer.top || inner.bottom > outer.bottom) button.scrollIntoView({ block: "nearest" });
}

function item(row) {
  const text = JSON.stringify([row, model.state.names]);
  const known = items.get(row.id);
  if (known?.text === text) return known.node;
  const node = known?.node || element("li", {});
  const focused = node.contains(document.activeElement);
  node.replaceChildren(button(row));
  if (focused) node.firstChild.focus();
  items.set(row.id, { node, text, id: row.id });
  return node;
}

function button(row) {
  const { answer } = row;
  const left = answer.left_out || row.kinds.includes("exclude") || row.kinds.includes("no_change");
  const changed = row.changed_now ? row.before : row.changed ? row.found : null;
  const time = answer.times.find((each) => each !== null) ?? 0;
  return element("button", { type: "button", class: `row-button${left ? " left-out" : ""}${row.changed_now ? " now" : ""}`, onclick: () => whenChosen(row.id) },
    thumbnail(row, `frame?clip=${encodeURIComponent(row.id)}&time=${Math.max(time, 0).toFixed(2)}&side=128`),
    element("span", { class: "row-text" },
      element("span", { class: "row-name" }, element("bdi", {}, row.id)),
      element("span", { class: "row-answer num" }, left && !answer.left_out ? "to be left out" : inWords(answer)),
      changed ? element("span", { class: "row-changed" }, `${row.changed_now ? "now " : ""}${difference(changed, answer)}`) : null),
    element("span", { class: "row-marks" }, ...marks(row)));
}

// --- thumbnails -------------------------------------------------------------------------------------

// A browser has six connections to a server, and decoding a frame takes time: few thumbnails are
// asked for at once, those that came into view last first, and none that went out of view.
const AT_ONCE = 2;
const visible = new Set();
let loading = 0;
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    visible.delete(target);
    if (isIntersecting) visible.add(target);
  }
  loadSome();
}, { rootMargin: "80px" });

function thumbnail(row, source) {
  const made = element("img", { class: `thumb${row.has_video ? "" : " none"}`, alt: "", width: 64, height: 48 });
  if (!row.has_video) return made;
  made.dataset.source = source;
  watcher.observe(made);
  return made;
}

function loadSome() {
  while (loading < AT_ONCE && visible.size) {
    const next = [...visible].pop();
    visible.delete(next);
    watcher.unobserve(next);
    if (!next.isConnected) continue;
    loading += 1;
    const done = () => {
      loading -= 1;
      loadSome();
    };
    next.addEventListener("load", done, { once: true });
    next.addEventListener("error", () => {
      next.classList.add("none");
      done();
    }, { once: true });
    next.src = next.dataset.source;
  }
}

export function marks(row) {
  const made = [];
  const marks = { action: "corrected", state: "corrected", not_object: "corrected", confirm: "right", exclude: "excluded", no_change: "no change" };
  for (const text of new Set(row.kinds.map((kind) => marks[kind]))) made.push(element("span", { class: `mark ${text === "right" ? "ok" : ""}` }, text));
  if (row.answer.outlier) made.push(element("span", { class: "mark", title: row.answer.outlier }, "outlier"));
  if (row.noted) made.push(element("span", { class: "mark", title: "has a note" }, "note"));
  if (row.confidence !== null && !row.answer.left_out) {
    const share = Math.round(100 * row.confidence);
    made.push(element("span", { class: `chance${isUnsure(row) ? " low" : ""}`, title: "the chance that the answers of this clip are right" }, `${share} % sure`));
  }
  return made;
}
