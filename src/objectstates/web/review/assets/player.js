// The video of the selected clip, with the boxes of its tracklets drawn over it.

import { model, snap, framesFrom, seconds } from "./model.js";

const SVG = "http://www.w3.org/2000/svg";
const video = document.getElementById("video");
const boxes = document.getElementById("boxes");
const stage = document.getElementById("stage");
const shapes = new Map(); // of tracklets, by index
let whenMoved = () => {};
let loop = null; // [start, end] in seconds, or null
let shownClip = null;

/** Call back with the time whenever another frame is shown. */
export function onMove(callback) {
  whenMoved = callback;
}

export const time = () => video.currentTime;
export const isPlaying = () => !video.paused;

/** Show the video of the clip that was read; if it is another one, from its action on. */
export function show() {
  const clip = model.clip;
  shapes.clear();
  boxes.replaceChildren();
  showProblem(clip.size ? "" : clip.video_problem);
  video.hidden = !clip.size;
  if (clip.size) {
    boxes.setAttribute("viewBox", `0 0 ${clip.size[0]} ${clip.size[1]}`);
    stage.style.aspectRatio = `${clip.size[0]} / ${clip.size[1]}`;
    stage.style.setProperty("--aspect", String(clip.size[0] / clip.size[1]));
  }
  if (shownClip !== clip.id) {
    shownClip = clip.id;
    setLoop(null);
    const first = clip.answer.actions.find(Boolean);
    const begin = first ? Math.max(first[0] - 1, clip.extent[0]) : clip.extent[0];
    if (clip.size) {
      const query = `clip=${encodeURIComponent(clip.id)}`;
      video.poster = `frame?${query}&time=${begin.toFixed(3)}&side=960`;
      video.src = `video?${query}`;
      video.playbackRate = Number(document.getElementById("speed").value);
      seek(begin);
    }
  }
  draw();
}

function showProblem(text) {
  const place = document.getElementById("no-video");
  place.hidden = !text;
  place.textContent = text;
}

export function seek(to) {
  // A little later than the frame begins: rounding must not show the one before.
  video.currentTime = Math.max(0, to + 0.002);
  draw();
}

export function step(frames) {
  video.pause();
  seek(framesFrom(snap(video.currentTime - 0.002), frames));
}

export function toggle() {
  if (!model.clip?.size) return;
  if (video.paused) {
    const [start, end] = loop || model.clip.extent;
    if (video.currentTime < start - 0.01 || video.currentTime >= end - 0.05) seek(start);
    video.play().catch(() => {});
  } else {
    video.pause();
  }
}

/** Repeat an interval, or with null no longer. */
export function setLoop(interval) {
  loop = interval;
  document.getElementById("loop").setAttribute("aria-pressed", String(Boolean(loop)));
}

export const isLooping = () => Boolean(loop);

function watch() {
  const [start, end] = loop || model.clip?.extent || [0, Infinity];
  if (!video.paused && video.currentTime >= end) {
    if (loop) seek(start);
    else video.pause();
  }
  draw();
}

/** Draw the boxes at the current time. */
export function draw() {
  const now = video.currentTime;
  whenMoved(now);
  document.getElementById("now").textContent = seconds(now);
  if (!model.clip) return;
  for (const tracklet of model.clip.tracklets) {
    const at = tracklet.start <= now + 0.02 && now < tracklet.end + 0.02 ? boxAt(tracklet.boxes, now) : null;
    let shape = shapes.get(tracklet.index);
    if (!at) {
      shape?.remove();
      shapes.delete(tracklet.index);
      continue;
    }
    if (!shape) {
      shape = document.createElementNS(SVG, "g");
      shape.append(document.createElementNS(SVG, "rect"), document.createElementNS(SVG, "rect"));
      boxes.append(shape);
      shapes.set(tracklet.index, shape);
    }
    const kind = tracklet.correction === "not_object" ? "not" : tracklet.state ? `state-${tracklet.state}` : "thin";
    shape.firstChild.setAttribute("class", `box halo${kind === "thin" ? " thin" : ""}`);
    shape.lastChild.setAttribute("class", `box ${kind}`);
    for (const rectangle of shape.children) {
      rectangle.setAttribute("x", at[0]);
      rectangle.setAttribute("y", at[1]);
      rectangle.setAttribute("width", Math.max(at[2] - at[0], 0));
      rectangle.setAttribute("height", Math.max(at[3] - at[1], 0));
    }
  }
}

/** The box at a time, between those before and after it. */
function boxAt(rows, now) {
  if (!rows.length) return null;
  let k = 0;
  while (k < rows.length - 1 && rows[k + 1][0] <= now) k += 1;
  const one = rows[k];
  const two = rows[Math.min(k + 1, rows.length - 1)];
  const share = two[0] > one[0] ? Math.min(Math.max((now - one[0]) / (two[0] - one[0]), 0), 1) : 0;
  return [1, 2, 3, 4].map((side) => one[side] + share * (two[side] - one[side]));
}

function eachFrame() {
  watch();
  if (!video.paused) requestAnimationFrame(eachFrame);
}

video.addEventListener("play", () => {
  document.getElementById("play").setAttribute("aria-pressed", "true");
  requestAnimationFrame(eachFrame);
});
video.addEventListener("pause", () => {
  document.getElementById("play").setAttribute("aria-pressed", "false");
  draw();
});
video.addEventListener("seeked", draw);
video.addEventListener("error", () => {
  if (video.getAttribute("src")) showProblem("The browser cannot play this video.");
});
stage.addEventListener("click", toggle);
