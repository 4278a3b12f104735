// The player of a clip: its video, or its key frames one after the other.

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
