// The timeline of a clip: scores of the actions, change, progress, tracklets with states.

const CURVE = chain ? (data.actions.length <= 3 ? 30 : 20) : 54; // pixels, height of the score curve of an action
const CHANGE = 26; // pixels, height of the change curve
const PROGRESS = 26; // pixels, height of the progress curve
const HEADS = 16; // pixels, height of the numbers of the actions of a chain
const LABELLED = 22; // pixels, height of the lane of labelled tracklets

function layout(clip) {
  const lanes = 1 + Math.max(0, ...clip.tracklets.map((t) => t[3]));
  const first = clip.tracklets.some((t) => t[2]) ? LABELLED : 12;
  const other = clamp(90 / lanes, 6, 12);
  const curves = data.actions.length * CURVE; // height of all score curves
  const change = (clip.scores.length ? curves + 8 : 8) + (chain ? HEADS : 0); // top of the change curve
  const progress = change + (clip.change ? CHANGE + 10 : 0); // top of the progress curve
  const top = clip.progress ? progress + PROGRESS + 8 : change + 8 + (clip.change ? CHANGE : 0);
  const y = (lane) => top + (lane ? first + (lane - 1) * other : 0);
  const laneAt = (height) => (height < top + first ? Math.floor((height - top) / first) : 1 + Math.floor((height - top - first) / other));
  return { y, laneAt, change, progress, thickness: (lane) => (lane ? other : first) - 5, height: y(lanes) + 2 };
}

function makeTimeline(number) {
  const clip = clips[number];
  const place = layout(clip);
  const span = clip.end - clip.start || 1;
  const at = (time) => (1000 * (time - clip.start)) / span;
  const timeline = element("div", "timeline");
  const svg = shape("svg", {
    viewBox: `0 0 1000 ${place.height}`, preserveAspectRatio: "none", height: place.height,
    role: "img", "aria-label": describe(clip),
  });
  drawActions(svg, timeline, clip, place, at);
  drawChange(svg, clip, place, at);
  drawProgress(svg, clip, place, at);
  drawTracklets(svg, timeline, clip, place, at);
  for (const [a, b] of (clip.truth || []).flat()) {
    const band = element("span", "true-action");
    band.style.left = `${at(a) / 10}%`;
    band.style.width = `${(at(b) - at(a)) / 10}%`;
    timeline.append(band);
  }
  timeline.prepend(svg);
  drawTicks(timeline, clip, at);
  const timeOf = (event) => {
    const bounds = svg.getBoundingClientRect();
    return clip.start + span * clamp((event.clientX - bounds.left) / bounds.width, 0, 1);
  };
  timeline.addEventListener("click", (event) => open(number, timeOf(event), true));
  timeline.addEventListener("pointermove", (event) => {
    const y = event.clientY - svg.getBoundingClientRect().top;
    const inChange = clip.change && y >= place.change && y < place.change + CHANGE;
    const inProgress = clip.progress && y >= place.progress && y < place.progress + PROGRESS;
    const text = inChange ? changeText(clip, timeOf(event))
      : inProgress ? progressText(clip, timeOf(event))
      : tooltipText(clip, timeOf(event), place.laneAt(y));
    showTooltip(event, text);
  });
  timeline.addEventListener("pointerleave", () => { tooltip.hidden = true; });
  return timeline;
}

// The score of each action on a line of its own, and the time that it takes; in a chain its number.
function drawActions(svg, timeline, clip, place, at) {
  const heads = chain ? HEADS : 0;
  for (let k = 0; clip.scores.length && k < data.actions.length; k += 1) {
    const bottom = heads + (k + 1) * CURVE;
    svg.append(shape("path", { class: "base", d: `M0 ${bottom}H1000` }));
    const y = (score) => bottom - ((CURVE - 6) * (clamp(score, low, high) - low)) / (high - low || 1);
    const points = clip.scores.map((row) => `${at(row[0]).toFixed(1)},${y(row[k + 1]).toFixed(1)}`);
    svg.append(shape("polyline", { class: "curve", points: points.join(" ") }));
  }
  for (const [number, start, end] of clip.actions) {
    const [a, b] = [at(start), at(end)];
    svg.append(shape("rect", { class: "column", x: a, y: heads, width: b - a, height: place.height - heads }));
    if (!chain) {
      svg.append(shape("rect", { class: "chunk", x: a, y: 0, width: b - a, height: 4 }));
      continue;
    }
    if (clip.scores.length) svg.append(shape("rect", { class: "chunk", x: a, y: heads + (number - 1) * CURVE, width: b - a, height: 4 }));
    const head = element("span", "action-head", String(number));
    head.style.left = `${(a + b) / 20}%`;
    timeline.append(head);
  }
}

// The share of the picture that changes for good over time, with the time of the action.
function drawChange(svg, clip, place, at) {
  if (!clip.change) return;
  const { start, step, values } = clip.change;
  const bottom = place.change + CHANGE;
  const height = (value) => (bottom - ((CHANGE - 2) * value) / 100).toFixed(1);
  const middle = (k) => at(clamp(start + (k + 0.5) * step, clip.start, clip.end)).toFixed(1);
  const points = values.map((value, k) => `L${middle(k)} ${height(value)}`);
  svg.append(shape("path", { class: "change", d: `M${middle(0)} ${bottom}${points.join("")}L${middle(values.length - 1)} ${bottom}Z` }));
  const d = clip.actions.map((action) => `M${at(action[3]).toFixed(1)} ${place.change - 4}V${bottom}`).join("");
  for (const kind of d ? ["action-time halo", "action-time"] : []) svg.append(shape("path", { class: kind, d }));
}

// How far between state 1 (the line below) and state 2 (the line above), as other clips tell.
function drawProgress(svg, clip, place, at) {
  if (!clip.progress) return;
  const [above, below] = [place.progress + 1, place.progress + PROGRESS];
  const height = (value) => (below - (below - above) * clamp(value, 0, 1)).toFixed(1);
  const last = clip.progress.length - 1;
  const points = clip.progress.map(([time, value]) => `L${at(time).toFixed(1)} ${height(value)}`).join("");
  const line = `M0 ${height(clip.progress[0][1])}${points}L1000 ${height(clip.progress[last][1])}`;
  svg.append(shape("path", { class: "progress-area", d: `${line}V${below}H0Z` }));
  svg.append(shape("path", { class: "base", d: `M0 ${above}H1000M0 ${below}H1000` }));
  svg.append(shape("path", { class: "progress-line", d: line }));
}

function drawTracklets(svg, timeline, clip, place, at) {
  const bars = new Map(); // paths by state
  const truths = new Map(); // by true label
  const add = (paths, key, d) => paths.set(key, (paths.get(key) ?? "") + d);
  for (const [start, end, state, lane, , truth] of clip.tracklets) {
    const y = place.y(lane);
    const bottom = y + place.thickness(lane);
    const [a, b] = [at(start) + 1, Math.max(at(end) - 1, at(start) + 2)];
    add(bars, state, `M${a.toFixed(1)} ${y.toFixed(1)}H${b.toFixed(1)}V${bottom.toFixed(1)}H${a.toFixed(1)}Z`);
    if (truth) add(truths, truth, `M${a.toFixed(1)} ${(bottom + 2).toFixed(1)}H${b.toFixed(1)}`);
    if (state) {
      const digit = element("span", "digit", String(state));
      digit.style.left = `${(a + b) / 20}%`;
      digit.style.top = `${4 + (y + bottom) / 2}px`;
      timeline.append(digit);
      if (truth !== null && truth !== state) {
        const cross = element("span", "cross", "✕");
        cross.style.left = digit.style.left;
        cross.style.top = `${2 + y}px`;
        timeline.append(cross);
      }
    }
  }
  for (const [state, d] of [...bars].sort(([one], [two]) => one - two)) svg.append(shape("path", { class: state ? `state-${state}` : "other", d }));
  for (const [truth, d] of truths) svg.append(shape("path", { class: `truth-mark ${truth === AMBIGUOUS ? "ambiguous" : `state-${truth}`}`, d }));
}

function drawTicks(timeline, clip, at) {
  const span = clip.end - clip.start;
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800].find((s) => span / s <= 7) || span / 4;
  for (let k = Math.ceil(clip.start / step - 1e-6); k * step <= clip.end + 1e-6; k += 1) {
    const fraction = at(k * step) / 1000;
    if (fraction > 0.97 || fraction < 0.015) continue;
    const tick = element("span", "tick", `${Number((k * step).toFixed(1))} s`);
    tick.style.left = `${100 * fraction}%`;
    timeline.append(tick);
  }
}

function describe(clip) {
  const parts = [`Timeline from ${seconds(clip.start)} to ${seconds(clip.end)}`];
  for (const [time, role] of clip.moments) parts.push(`${called(role)} at ${seconds(time)}`);
  (clip.truth || []).forEach((found, k) => {
    if (found.length) parts.push(`true ${data.actions[k]} ${found.map(([a, b]) => `${seconds(a)} to ${seconds(b)}`).join(", ")}`);
  });
  return parts.join("; ");
}

function tooltipText(clip, time, lane) {
  const parts = [seconds(time)];
  const acting = chain && clip.actions.find((action) => action[1] <= time && time < action[2]);
  if (acting) parts.push(called(data.actions[acting[0] - 1]));
  const tracklet = clip.tracklets.find((t) => t[3] === lane && t[0] <= time && time < t[1]);
  if (tracklet) {
    const score = tracklet[4] === null ? "" : `, score ${tracklet[4].toFixed(2)}`;
    parts.push(tracklet[2] ? `state ${tracklet[2]}${score}` : "not labelled");
    if (tracklet[5] !== null) parts.push(truly(tracklet[5]));
  } else if (clip.scores.length) {
    const nearest = clip.scores.reduce((a, b) => (Math.abs(b[0] - time) < Math.abs(a[0] - time) ? b : a));
    parts.push(...data.actions.map((label, k) => `${label} score ${nearest[k + 1].toFixed(2)}`).slice(...(acting ? [acting[0] - 1, acting[0]] : [])));
  }
  return parts.join(" · ");
}

function progressText(clip, time) {
  const points = clip.progress;
  const next = points.findIndex(([t]) => t >= time);
  let value = points[next < 0 ? points.length - 1 : next][1];
  if (next > 0) {
    const [[t0, p0], [t1, p1]] = [points[next - 1], points[next]];
    value = p0 + ((p1 - p0) * (time - t0)) / (t1 - t0 || 1);
  }
  return `${seconds(time)} · progress ${value.toFixed(2)}`;
}

function changeText(clip, time) {
  const { start, step, peak, values } = clip.change;
  const value = values[Math.floor((time - start) / step)] || 0;
  return `${seconds(time)} · ${percent((peak * value) / 100)} of the picture changes for good per second`;
}

function showTooltip(event, text) {
  tooltip.textContent = text;
  tooltip.hidden = false;
  tooltip.style.left = `${clamp(event.clientX + 12, 4, window.innerWidth - tooltip.offsetWidth - 8)}px`;
  tooltip.style.top = `${clamp(event.clientY + 16, 4, window.innerHeight - tooltip.offsetHeight - 8)}px`;
}
