"use strict";
// The list of clips: rows are built when they are scrolled into view, sorted, filtered, played.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const clips = data.clips;
  const [low, high] = data.scale;
  const list = document.getElementById("clips");
  const rows = new Map([...list.children].map((row) => [Number(row.dataset.clip), row]));
  const tooltip = document.getElementById("tooltip");
  const called = (role) => data.called[role] ?? role; // the user's names of states and actions
  const style = (role) => (role.startsWith("action") ? "action" : role.replace(" ", "-")); // CSS class
  const chain = data.actions.length > 1;
  const AMBIGUOUS = -2;
  const truthName = (label) => (label === AMBIGUOUS ? "ambiguous" : label ? called(`state ${label}`) : "not the object");
  const truly = (label) => `${data.byTime && label ? "by time" : "truly"} ${truthName(label)}`;
  const SVG = "http://www.w3.org/2000/svg";

  // --- helpers -----------------------------------------------------------------------------

  function element(tag, className = "", text = "") {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text) made.textContent = text;
    return made;
  }

  function shape(tag, attributes) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  function button(text, label, action) {
    const made = element("button", "", text);
    made.type = "button";
    made.setAttribute("aria-label", label);
    made.addEventListener("click", action);
    return made;
  }

  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  const seconds = (time) => `${time.toFixed(1)} s`;
  const percent = (share) => `${Number((100 * share).toPrecision(2))} %`;

  // --- boxes -----------------------------------------------------------------------------------

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

  // --- frames --------------------------------------------------------------------------------

  // Frames are at the end of the file, which may still be loading when the page is first shown.
  function frames(number) {
    const store = document.getElementById(`frames-${number}`);
    return store ? store.textContent.split(" ") : [];
  }

  const source = (data) => `data:image/jpeg;base64,${data}`;

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

  // --- timelines -------------------------------------------------------------------------------

  const CURVE = chain ? 20 : 54; // pixels, height of the score curve of an action
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

  // --- rows are filled when they are scrolled near --------------------------------------------------------

  function fill(number) {
    const body = rows.get(number).querySelector(".body");
    if (body.childElementCount) return;
    const moments = makeMoments(number);
    if (chain || moments.className === "chips") body.classList.add("no-thumbnails");
    body.append(moments, makeTimeline(number));
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      fill(Number(entry.target.dataset.clip));
    }
  }, { rootMargin: "700px 0px" });
  const watchRows = () => { for (const row of rows.values()) near.observe(row); };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", watchRows);
  else watchRows();

  // --- the player ------------------------------------------------------------------------------

  let player = null; // at most one clip is open

  class Player {
    constructor(number) {
      this.number = number;
      this.clip = clips[number];
      this.stored = frames(number);
      this.time = this.clip.start;
      this.playing = false;
      this.ready = false;
      this.addresses = [...this.clip.video];
      this.root = element("div", "player");
      this.root.setAttribute("role", "group");
      this.root.setAttribute("aria-label", `Player of ${this.clip.name}`);
      this.screen = element("div", "screen");
      this.image = element("img");
      this.image.alt = "";
      this.status = element("span", "status num");
      this.toggle = button("Play", "Play or pause", () => this.setPlaying(!this.playing));
      const controls = element("div", "controls");
      controls.append(
        button("←", "Previous moment", () => this.step(-1)), this.toggle,
        button("→", "Next moment", () => this.step(1)), this.status,
        button("Close", "Close the player", close),
      );
      if (this.clip.size) {
        this.boxes = overlay(this.clip);
        this.screen.style.aspectRatio = this.clip.size.join(" / ");
        this.root.style.maxWidth = `min(720px, ${(70 * this.clip.size[0]) / this.clip.size[1]}vh)`;
        this.root.append(this.screen);
      }
      this.root.append(controls);
      this.playhead = element("span", "playhead");
      const row = rows.get(number);
      row.querySelector(".timeline").append(this.playhead);
      row.querySelector(".body").append(this.root);
      this.showFrame();
      if (this.addresses.length) this.load();
    }

    // Try the video's addresses in turn; if all fail, show key frames.
    load() {
      const video = element("video");
      video.muted = true;
      video.playsInline = true;
      video.preload = "auto";
      video.setAttribute("aria-label", `Video of ${this.clip.name}`);
      video.addEventListener("error", () => {
        video.remove();
        this.video = null;
        this.ready = false;
        if (this.addresses.length) return this.load();
        this.showFrame();
        return this.runKeyFrames();
      });
      video.addEventListener("loadedmetadata", () => {
        this.ready = true; // from now on the video's time is valid
        video.currentTime = this.time;
        if (this.playing) video.play().catch(() => this.setPlaying(false));
      }, { once: true });
      video.addEventListener("loadeddata", () => { video.style.visibility = ""; });
      video.addEventListener("seeked", () => this.follow());
      video.addEventListener("timeupdate", () => this.follow());
      video.addEventListener("pause", () => { // at its end, or by a media key
        if (this.playing && this.video === video) this.setPlaying(false);
      });
      video.addEventListener("click", () => this.setPlaying(!this.playing));
      video.style.visibility = "hidden"; // until it is loaded, the key frame shows
      video.src = this.addresses.shift();
      this.video = video;
      this.screen.insertBefore(video, this.boxes);
      if (video.requestVideoFrameCallback) {
        const onFrame = (_, frame) => {
          if (this.video !== video) return;
          this.follow(frame.mediaTime);
          video.requestVideoFrameCallback(onFrame);
        };
        video.requestVideoFrameCallback(onFrame);
      }
    }

    follow(time = this.video.currentTime) {
      if (!this.video || !this.ready || this.video.seeking) return;
      this.time = time;
      if (this.playing && time >= this.clip.end) this.setPlaying(false);
      this.draw(time);
    }

    draw(time) {
      if (this.boxes) drawBoxes(this.boxes, this.clip, time);
      const fraction = (this.time - this.clip.start) / (this.clip.end - this.clip.start || 1);
      this.playhead.style.left = `${100 * clamp(fraction, 0, 1)}%`;
      const now = this.clip.tracklets.find((t) => t[2] && t[0] <= this.time && this.time < t[1]);
      const acting = this.clip.actions.find((action) => action[1] <= this.time && this.time < action[2]);
      const labels = [now ? called(`state ${now[2]}`) : "", acting ? called(data.actions[acting[0] - 1]) : "", now && now[5] !== null ? truly(now[5]) : ""];
      this.status.textContent = [`${this.time.toFixed(2)} s`, ...labels, this.video ? "" : this.fallback()].filter(Boolean).join(" · ");
      for (const thumbnail of rows.get(this.number).querySelectorAll(".thumbnail")) {
        thumbnail.classList.toggle("current", Math.abs(Number(thumbnail.dataset.time) - this.time) < 0.2);
      }
    }

    fallback() {
      return this.stored.length ? "key frames (the video cannot be played)" : "no video";
    }

    showFrame() {
      const times = this.clip.frames;
      let shown = this.time;
      if (times.length && this.stored.length) {
        let best = 0;
        times.forEach((time, k) => { if (Math.abs(time - this.time) < Math.abs(times[best] - this.time)) best = k; });
        this.image.src = source(this.stored[best]);
        this.screen.prepend(this.image);
        shown = times[best];
      } else {
        this.screen.classList.add("blank");
      }
      if (this.boxes) this.screen.append(this.boxes);
      if (!this.video) this.draw(shown);
    }

    seek(time) {
      this.time = clamp(time, this.clip.start, this.clip.end);
      if (this.video && this.ready) this.video.currentTime = this.time;
      this.showFrame();
    }

    setPlaying(playing) {
      if (playing && this.time >= this.clip.end - 0.05) this.seek(this.clip.start);
      this.playing = playing;
      this.toggle.textContent = playing ? "Pause" : "Play";
      if (!this.video) this.runKeyFrames();
      else if (!playing) this.video.pause();
      else if (this.ready) this.video.play().catch(() => this.setPlaying(false));
    }

    // Without a video: one key frame after the other; without frames, only the boxes move.
    runKeyFrames() {
      clearTimeout(this.timer);
      if (!this.playing) return;
      this.timer = setTimeout(() => {
        if (this.video || !this.playing) return;
        const next = this.clip.frames.length ? this.clip.frames.find((t) => t > this.time + 0.01) : this.time + 0.1;
        if (next === undefined || next > this.clip.end) return this.setPlaying(false);
        this.seek(next);
        this.runKeyFrames();
      }, this.clip.frames.length ? 700 : 100);
    }

    step(direction) {
      this.setPlaying(false);
      const times = [...new Set([...this.clip.moments.map((m) => m[0]), ...(this.video ? [] : this.clip.frames)])].sort((a, b) => a - b);
      const next = direction > 0 ? times.find((t) => t > this.time + 0.06) : times.findLast((t) => t < this.time - 0.06);
      if (next !== undefined) this.seek(next);
    }

    close() {
      clearTimeout(this.timer);
      if (this.video) {
        this.video.pause();
        this.video.removeAttribute("src");
        this.video.load();
        this.video = null;
      }
      this.root.remove();
      this.playhead.remove();
      for (const thumbnail of rows.get(this.number).querySelectorAll(".current")) thumbnail.classList.remove("current");
    }
  }

  function open(number, time, play) {
    fill(number);
    if (!player || player.number !== number) {
      close();
      player = new Player(number);
      makeCurrent(rows.get(number));
    }
    player.seek(time);
    player.setPlaying(play);
  }

  function close() {
    if (!player) return;
    const row = rows.get(player.number);
    const inside = row.contains(document.activeElement);
    player.close();
    player = null;
    if (inside) row.focus({ preventScroll: true });
  }

  // --- sorting and filtering -------------------------------------------------------------------

  const [search, sort, least, kind] = ["search", "sort", "least", "kind"].map((id) => document.getElementById(id));
  const fold = (text) => text.normalize("NFKD").toLocaleLowerCase();
  const names = clips.map((clip) => fold(clip.name));
  const compareNames = new Intl.Collator(undefined, { numeric: true }).compare;
  const ORDERS = {
    sure: (a, b) => clips[b].confidence - clips[a].confidence,
    unsure: (a, b) => clips[a].confidence - clips[b].confidence,
    wrong: (a, b) => (clips[b].disagreement ?? -1) - (clips[a].disagreement ?? -1) || (clips[b].off ?? 0) - (clips[a].off ?? 0),
    failed: (a, b) => (clips[a].reached ?? 2) - (clips[b].reached ?? 2),
    name: (a, b) => compareNames(clips[a].name, clips[b].name),
  };

  function shows(number) {
    const clip = clips[number];
    if (!names[number].includes(fold(search.value.trim())) || clip.confidence < Number(least.value)) return false;
    const wanted = kind ? kind.value : "";
    if (wanted === "") return true;
    if (wanted === "none") return clip.disagreement !== null && !clip.kinds.length;
    return wanted === "any" ? clip.kinds.length > 0 : clip.kinds.includes(wanted);
  }

  function refresh() {
    document.getElementById("least-shown").textContent = Number(least.value).toFixed(2);
    const order = [...rows.keys()].sort((a, b) => ORDERS[sort.value](a, b) || a - b);
    const visible = order.filter(shows);
    const shown = new Set(visible);
    if (player && !shown.has(player.number)) close();
    const moved = order.some((number, k) => list.children[k] !== rows.get(number));
    if (moved) list.append(...order.map((number) => rows.get(number)));
    for (const [number, row] of rows) row.hidden = !shown.has(number);
    const all = clips.length;
    document.getElementById("count").textContent = visible.length === all ? `${all} clip${all === 1 ? "" : "s"}` : `${visible.length} of ${all} clips`;
    document.getElementById("nothing").hidden = visible.length > 0;
    for (const count of document.querySelectorAll(".mistake-count")) {
      count.setAttribute("aria-pressed", String(Boolean(kind) && kind.value === count.dataset.kind));
    }
    const current = list.querySelector(".clip[tabindex='0']");
    if (visible.length && (!current || current.hidden)) makeCurrent(rows.get(visible[0]));
  }

  function reset() {
    search.value = "";
    least.value = least.min;
    if (kind) kind.value = "";
    refresh();
  }

  document.getElementById("toolbar").addEventListener("input", refresh);
  document.getElementById("toolbar").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("reset").addEventListener("click", reset);

  // --- links to a clip from the rest of the page ----------------------------------------------------------

  document.addEventListener("click", (event) => {
    const count = event.target.closest(".mistake-count");
    if (count) {
      kind.value = kind.value === count.dataset.kind ? "" : count.dataset.kind;
      sort.value = kind.value ? "wrong" : sort.value;
      refresh();
      if (kind.value) document.getElementById("all").scrollIntoView();
      return;
    }
    const link = event.target.closest("button[data-clip]");
    if (!link) return;
    const number = Number(link.dataset.clip);
    if (rows.get(number).hidden) reset();
    open(number, Number(link.dataset.time), true);
    if (!list.contains(link)) {
      rows.get(number).scrollIntoView({ block: "center" });
      rows.get(number).focus({ preventScroll: true });
    }
  });

  // --- keys ------------------------------------------------------------------------------------

  // Only the current row and its buttons are in the tab order; arrow keys move to other rows.
  function makeCurrent(row) {
    for (const other of list.querySelectorAll("[tabindex='0']")) if (!row.contains(other)) other.tabIndex = -1;
    row.tabIndex = 0;
    for (const inside of row.querySelectorAll("button")) inside.tabIndex = 0;
  }

  function moveTo(row) {
    if (!row) return;
    makeCurrent(row);
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  list.addEventListener("focusin", (event) => {
    const row = event.target.closest(".clip");
    if (row && row.tabIndex !== 0) makeCurrent(row);
  });

  list.addEventListener("keydown", (event) => {
    const row = event.target.closest(".clip");
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const visible = [...list.children].filter((other) => !other.hidden);
    const here = visible.indexOf(row);
    const number = Number(row.dataset.clip);
    const first = clips[number].moments.length ? clips[number].moments[0][0] : clips[number].start;
    const mine = player && player.number === number;
    const actions = {
      ArrowDown: () => moveTo(visible[here + 1]),
      ArrowUp: () => moveTo(visible[here - 1]),
      Home: () => moveTo(visible[0]),
      End: () => moveTo(visible[visible.length - 1]),
      ArrowRight: () => (mine ? player.step(1) : open(number, first, false)),
      ArrowLeft: () => (mine ? player.step(-1) : open(number, first, false)),
    };
    if (event.target === row) {
      actions.Enter = actions[" "] = () => (mine ? player.setPlaying(!player.playing) : open(number, first, true));
    }
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape") {
      if (player) close();
      else if (event.target === search && search.value) { search.value = ""; refresh(); }
      else if (event.target === search) moveTo([...list.children].find((row) => !row.hidden));
    } else if (event.target === search && (event.key === "Enter" || event.key === "ArrowDown")) {
      event.preventDefault();
      moveTo([...list.children].find((row) => !row.hidden));
    }
  });

  // --- colours ---------------------------------------------------------------------------------

  const THEMES = ["auto", "light", "dark"];
  const theme = document.getElementById("theme");

  function setTheme(name) {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    theme.querySelector("span").textContent = name;
    theme.setAttribute("aria-label", `Colours: ${name === "auto" ? "as the system" : name}`);
    try { localStorage.setItem("objectstates-theme", name); } catch { /* a page from disk may have no storage */ }
  }

  theme.addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3]);
  });
  try {
    const kept = localStorage.getItem("objectstates-theme");
    if (THEMES.includes(kept) && kept !== "auto") setTheme(kept);
  } catch { /* as above */ }

  refresh();
})();
