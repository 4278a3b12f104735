// The state of the page: what the server last said, the selected clip, and words for answers.

import { api } from "/assets/common.js";

export const model = {
  state: null, // of api/state
  rows: new Map(), // rows of the state by clip
  selected: null, // id of the clip
  clip: null, // of api/clip, of the selected clip
  frames: [], // times of its frames, seconds
};

/** Read the state of all clips. */
export async function readState() {
  model.state = await api("GET", "api/state");
  model.rows = new Map(model.state.clips.map((row) => [row.id, row]));
}

/** Read the details of a clip; null if another was selected meanwhile. */
export async function readClip(id) {
  const clip = await api("GET", `api/clip?clip=${encodeURIComponent(id)}`);
  if (model.selected !== id) return null;
  model.clip = clip;
  return clip;
}

/** Read the times of a clip's frames. */
export async function readFrames(id) {
  const frames = await api("GET", `api/frames?clip=${encodeURIComponent(id)}`);
  if (model.selected === id) model.frames = frames;
}

/** The time of the frame nearest to a time. */
export function snap(time) {
  const frames = model.frames;
  if (!frames.length) return Math.round(time * 25) / 25;
  let low = 0;
  let high = frames.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (frames[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - frames[low - 1] < frames[low] - time ? frames[low - 1] : frames[low];
}

/** The time some frames later or, with a negative number, earlier. */
export function framesFrom(time, steps) {
  const frames = model.frames;
  if (!frames.length) return Math.max(0, time + steps / 25);
  const at = frames.indexOf(snap(time));
  return frames[Math.min(Math.max(at + steps, 0), frames.length - 1)];
}

export const name = (label) => model.state.names[label];
/** The labels of the actions, in order: one, or several in a chain of changes. */
export const actionLabels = () => Object.keys(model.state.names).filter((label) => label.startsWith("action"));
/** The numbers of the states: 1, 2 and so on. */
export const stateNumbers = () => Object.keys(model.state.names).filter((label) => label.startsWith("state")).map((_, k) => String(k + 1));
export const isChain = () => actionLabels().length > 1;
export const seconds = (time) => `${time.toFixed(2)}\u00a0s`;
export const span = ([start, end]) => `${start.toFixed(1)}–\u2060${end.toFixed(1)}\u00a0s`;

/** An answer in words. */
export function inWords(answer) {
  if (answer.left_out) return "left out";
  const parts = [];
  actionLabels().forEach((label, k) => {
    if (answer.actions[k]) parts.push(`${name(label)} ${span(answer.actions[k])}`);
  });
  if (!parts.length && answer.states.some((each) => each.length)) parts.push("states only");
  return parts.join(", ") || "nothing found";
}

/** What changed from one answer to another, in words. */
export function difference(before, now) {
  if (before.left_out || now.left_out) return `${inWords(now)}, was ${inWords(before)}`;
  for (const [k, label] of actionLabels().entries()) {
    const [one, two] = [before.actions[k], now.actions[k]];
    const moved = one && two && one.some((edge, side) => Math.abs(edge - two[side]) > 0.25);
    if (moved) return `${name(label)} ${span(two)}, was ${span(one)}`;
    if (isChain() && Boolean(one) !== Boolean(two)) return `${name(label)} ${two ? span(two) : "not found"}, was ${one ? span(one) : "not found"}`;
  }
  for (const k of now.states.keys()) {
    const label = name(`state_${k + 1}`);
    const [a, b] = [before.states[k], now.states[k]].map((each) => each.map(span).join(", ") || "not seen");
    if (a !== b) return `${label} ${b}, was ${a}`;
  }
  return inWords(now);
}

/** Whether a person should look at the clip: it is not corrected, and right with less than 70 %. */
export function isUnsure(row) {
  return !row.kinds.length && !row.answer.left_out && row.confidence !== null && row.confidence < 0.7;
}
