// Boxes on frames, and the decisive frames of a clip.

// --- boxes -------------------------------------------------------------------------------------------

// A tracklet is [start, end, state, lane, score, truth, boxes], a box [time, x1, y1, x2, y2].
// The box at a time, interpolated between its neighbours.
function boxAt(boxes, time) {
  const after = boxes.findIndex((box) => box[0] >= time);
  if (after === 0) return boxes[0].slice(1);
  if (after < 0) return boxes[boxes.length - 1].slice(1);
  const [a, b] = [boxes[after - 1], boxes[after]];
  const fraction = (time - a[0]) / (b[0] - a[0] || 1);
  return [1, 2, 3, 4].map((k) => a[k] + fraction * (b[k] - a[k]));
}

function overlay(clip) {
  const [width, height] = clip.size;
  return shape("svg", { class: "boxes", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
}

function drawBox(svg, box, style) {
  const [x, y, x2, y2] = box;
  svg.append(shape("rect", { class: `box ${style}`, x, y, width: x2 - x, height: y2 - y }));
}

// The boxes of all tracklets that cover a time, the labelled ones on top.
function drawBoxes(svg, clip, time) {
  svg.replaceChildren();
  const covering = clip.tracklets.filter((t) => t[0] <= time && time < t[1] && t[6].length);
  covering.sort((a, b) => (a[2] > 0) - (b[2] > 0));
  for (const tracklet of covering) {
    const box = boxAt(tracklet[6], time);
    if (!tracklet[2]) {
      drawBox(svg, box, "thin");
      continue;
    }
    drawBox(svg, box, "halo");
    drawBox(svg, box, `state-${tracklet[2]}`);
    const label = shape("text", { x: box[0] + 4, y: Math.max(box[1] - 5, 14) });
    label.textContent = `state ${tracklet[2]}`;
    label.style.fontSize = `${clip.size[0] / 42}px`;
    label.style.strokeWidth = `${clip.size[0] / 200}px`;
    svg.append(label);
  }
}

// --- frames ------------------------------------------------------------------------------------------

// A row is made when it is scrolled near, so its pictures are decoded only then. Frames are at the end of the file, which may still be loading when the page is first shown.
function frames(number) {
  const store = document.getElementById(`frames-${number}`);
  return store ? store.textContent.split(" ") : [];
}

const source = (picture) => `data:${data.pictures};base64,${picture}`;

function makeThumbnail(number, moment, stored) {
  const clip = clips[number];
  const [time, role, tracklet, index] = moment;
  const thumbnail = button("", `${called(role)} of ${clip.name}, at ${seconds(time)}: play`, () => open(number, time, true));
  thumbnail.className = "thumbnail";
  thumbnail.tabIndex = rows.get(number).tabIndex;
  thumbnail.dataset.time = time;
  const frame = element("span", "frame");
  frame.style.aspectRatio = clip.size.join(" / ");
  if (index >= 0 && stored[index]) {
    const image = element("img");
    image.alt = "";
    image.decoding = "async";
    image.src = source(stored[index]);
    frame.append(image);
  }
  if (tracklet !== null && clip.tracklets[tracklet][6].length) {
    const svg = overlay(clip);
    const box = boxAt(clip.tracklets[tracklet][6], index >= 0 ? clip.frames[index] : time);
    drawBox(svg, box, "halo");
    drawBox(svg, box, style(role));
    frame.append(svg);
  }
  const under = element("span", "under-frame");
  under.append(element("span", `tag ${style(role)}`, called(role)), element("span", "at", seconds(time)));
  thumbnail.append(frame, under);
  return thumbnail;
}

// The middle frame in grey, with the places that changed for good in colour.
function makeWhere(number, stored) {
  const clip = clips[number];
  const { total } = clip.change;
  const from = clip.actions.length ? clip.actions[0][3] - 0.5 : clip.start;
  const thumbnail = button("", `Where ${clip.name} changes: play`, () => open(number, from, true));
  thumbnail.className = "thumbnail where";
  thumbnail.tabIndex = rows.get(number).tabIndex;
  const frame = element("span", "frame");
  frame.style.aspectRatio = clip.size.join(" / ");
  const image = element("img");
  image.alt = `The middle frame in grey; what changes for good, ${percent(total)} of the picture, is yellow.`;
  image.decoding = "async";
  image.src = source(stored[clip.where]);
  frame.append(image);
  const text = element("span", "text");
  text.append(element("span", "tag change", "change"), total ? `${percent(total)} of the picture changes for good` : "nothing changes for good");
  thumbnail.append(frame, text);
  return thumbnail;
}

function makeMoments(number) {
  const clip = clips[number];
  const stored = frames(number);
  if (clip.size) {
    const strip = element("div", `strip ${chain ? "chain" : `of-${clip.moments.length}`}`);
    strip.append(...clip.moments.map((moment) => makeThumbnail(number, moment, stored)));
    if (clip.change && stored[clip.where]) strip.append(makeWhere(number, stored));
    return strip;
  }
  const chips = element("div", "chips");
  for (const [time, role] of clip.moments) {
    const chip = button("", `${called(role)}, at ${seconds(time)}`, () => open(number, time, false));
    chip.className = "quiet";
    chip.tabIndex = rows.get(number).tabIndex;
    chip.append(element("span", `tag ${style(role)}`, called(role)), ` ${seconds(time)}`);
    chips.append(chip);
  }
  return chips;
}
