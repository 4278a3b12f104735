// What has been reached: numbers, advice, the curve of the recall, the detector at the end.

import { count } from "/assets/common.js";
import { svg } from "./boxes.js";

const $ = (id) => document.getElementById(id);
const BOXES_NEEDED = 4; // frames with a box, to train on

export function showProgress(state) {
  const { counts, training } = state;
  $("boxes").textContent = counts.by_hand;
  $("boxes-word").textContent = counts.by_hand === 1 ? "box" : "boxes";
  $("followed-count").textContent = counts.boxes - counts.by_hand;
  $("clips").textContent = counts.clips;
  $("all-clips").textContent = state.clips.filter(({ failed }) => !failed).length;
  $("advice").textContent = advice(state);
  $("training").textContent = trainingText(training);
  showRecall(training.recalls.filter((point) => point.recall));
  showFinish(state);
}

function advice({ object, counts, training, first_training: first, enough_recall: enough, clips }) {
  const last = training.recalls.at(-1)?.recall;
  if (training.final) return "";
  if (counts.by_hand < first) return `${count(first - counts.by_hand, "more box", "more boxes")} until the detector proposes where the ${object} is.`;
  if (!training.has_detector) return "The detector is being trained for the first time. Go on meanwhile.";
  if (training.recalls.length && !last) return "Label frames of more clips, so that some can be held out to judge the detector.";
  if (last && last.recall >= enough && counts.clips >= Math.min(8, clips.length)) return "This looks good: you can finish.";
  return "Go on: accept proposals that fit, and draw where they do not.";
}

function trainingText({ busy, final, progress, problem }) {
  if (problem) return `Training failed: ${problem}`;
  if (!busy || final) return ""; // of the final one, the lower card tells
  if (!progress) return "Training in the background…";
  const what = progress.stage === "train" ? "Training" : "Judging on held-out clips";
  return `${what} in the background, ${Math.round((100 * progress.done) / Math.max(1, progress.total))} %`;
}

export function recallText({ recall, objects, found, clips, wrong, images }) {
  return `${found} of ${count(objects, "object")} in ${count(clips, "clip")} that ${clips === 1 ? "was held out" : "were held out in turn"}; ${count(wrong, "wrong box", "wrong boxes")} in ${count(images, "frame")}`;
}

function showRecall(points) {
  $("recall").hidden = points.length === 0;
  if (!points.length) return;
  const last = points.at(-1).recall;
  $("recall-value").textContent = `${Math.round(100 * last.recall)} %`;
  $("recall-note").textContent = recallText(last);
  const curve = $("curve");
  curve.toggleAttribute("hidden", points.length < 2);
  curve.replaceChildren(svg("line", { x1: 26, y1: 58, x2: 236, y2: 58, class: "axis" }), svg("line", { x1: 26, y1: 8, x2: 236, y2: 8, class: "axis" }),
    text(0, 61, "0 %"), text(0, 12, "100"), text(26, 73, `boxes, up to ${points.at(-1).boxes}`));
  const most = Math.max(...points.map(({ boxes }) => boxes), 1);
  const place = ({ boxes, recall }) => [26 + (205 * boxes) / most, 58 - 50 * recall.recall];
  curve.append(svg("polyline", { points: points.map((p) => place(p).join(",")).join(" "), class: "line" }));
  for (const point of points.slice(-60)) {
    const [cx, cy] = place(point);
    curve.append(svg("circle", { cx, cy, r: 3 }));
  }
}

function text(x, y, words) {
  const made = svg("text", { x, y });
  made.textContent = words;
  return made;
}

function finishText(counts, final, running) {
  const wait = "This takes a few minutes. You may go back meanwhile, but leave the terminal open.";
  if (final === "running") return `${running?.stage === "recall" ? "Trained. Judging it on held-out clips." : "Training the detector on all boxes."} ${wait}`;
  if (final) return `The training in the background ends first, then the detector is trained on all boxes. ${wait}`;
  const missing = BOXES_NEEDED - counts.with_box;
  if (missing > 0) return `Draw a box in ${count(missing, "more frame")}; then the detector can be trained.`;
  return "Train the detector on all boxes and keep it.";
}

function showFinish({ counts, training, finished }) {
  const { final } = training;
  const running = final && training.progress?.final ? training.progress : null;
  $("finish").disabled = counts.with_box < BOXES_NEEDED || Boolean(final);
  $("finish").textContent = finished ? "Train it again" : "Train the detector";
  $("finish").className = finished && !finished.outdated ? "quiet" : "primary";
  $("finish-progress").hidden = !final;
  if (running) {
    const half = running.stage === "train" ? 0 : 0.5;
    $("finish-progress").value = half + (0.5 * running.done) / Math.max(1, running.total);
  } else {
    $("finish-progress").removeAttribute("value");
  }
  $("finish-note").textContent = finishText(counts, final, running);
  $("finish-note").hidden = Boolean(finished) && !final;
  $("done").hidden = !finished || Boolean(final);
  if (!finished) return;
  const judged = finished.recall ? ` It finds ${recallText(finished.recall)}.` : " It could not be judged: there is no clip to hold out.";
  const stale = finished.outdated ? " You have changed labels since: train it again to use them." : "";
  $("done-note").textContent = `The detector is ${finished.path}, trained on ${count(finished.boxes, "box", "boxes")} of ${count(finished.clips, "clip")}.${judged}${stale}`;
  $("command").textContent = finished.command;
}
