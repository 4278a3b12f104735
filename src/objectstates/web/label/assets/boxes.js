// Boxes on a frame: drawn, moved and resized by mouse, touch or keyboard.

const SVG = "http://www.w3.org/2000/svg";
const LEAST = 4; // pixels of the video; a smaller drag is a click
const CORNERS = [["x1", "y1", "nwse"], ["x2", "y1", "nesw"], ["x1", "y2", "nesw"], ["x2", "y2", "nwse"]];

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** An overlay that only shows boxes, for small pictures. */
export function boxPicture(width, height, boxes) {
  const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const { box, how } of boxes) made.append(rectangle(box, `box ${how}`));
  return made;
}

function rectangle([x1, y1, x2, y2], name) {
  return svg("rect", { x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1), class: name });
}

/** The editor. `changed(boxes)` is called when the user has changed the boxes. */
export class BoxEditor {
  constructor(overlay, changed) {
    this.overlay = overlay;
    this.changed = changed;
    this.show({ width: 1, height: 1, boxes: [], proposals: [] });
    overlay.addEventListener("pointerdown", (event) => this.#down(event));
    overlay.addEventListener("pointermove", (event) => this.#move(event));
    overlay.addEventListener("pointerup", (event) => this.#up(event));
    overlay.addEventListener("pointercancel", () => { this.drag = null; this.draw(); });
  }

  show({ width, height, boxes, proposals }) {
    this.width = width;
    this.height = height;
    this.boxes = boxes.map(({ box, how }) => ({ box: [...box], how }));
    this.proposals = proposals;
    this.chosen = this.boxes.length - 1;
    this.drag = null;
    this.draw();
  }

  draw() {
    const { overlay, width, height } = this;
    overlay.setAttribute("viewBox", `0 0 ${width} ${height}`);
    overlay.replaceChildren();
    if (!this.boxes.length) {
      this.proposals.forEach(({ box }, number) => {
        const made = rectangle(box, "box proposal");
        made.dataset.proposal = number;
        overlay.append(rectangle(box, "halo"), made);
      });
    }
    this.boxes.forEach(({ box, how }, number) => {
      const made = rectangle(box, `box ${how}${number === this.chosen ? " chosen" : ""}`);
      made.dataset.number = number;
      overlay.append(rectangle(box, "halo"), made);
    });
    if (this.chosen >= 0) this.#handles(this.boxes[this.chosen].box);
  }

  #handles([x1, y1, x2, y2]) {
    const at = { x1, y1, x2, y2 };
    const scale = this.width / Math.max(1, this.overlay.getBoundingClientRect().width);
    for (const [x, y, name] of CORNERS) {
      const grip = svg("circle", { cx: at[x], cy: at[y], r: 16 * scale, class: `grip ${name}` });
      grip.dataset.corner = `${x} ${y}`;
      this.overlay.append(svg("circle", { cx: at[x], cy: at[y], r: 5 * scale, class: "handle" }), grip);
    }
  }

  #point(event) {
    const place = this.overlay.getBoundingClientRect();
    return [
      clamp(((event.clientX - place.left) / place.width) * this.width, 0, this.width),
      clamp(((event.clientY - place.top) / place.height) * this.height, 0, this.height),
    ];
  }

  #down(event) {
    if (event.button !== 0 || this.disabled) return;
    event.preventDefault();
    this.overlay.focus({ preventScroll: true });
    this.overlay.setPointerCapture(event.pointerId);
    const from = this.#point(event);
    const before = { boxes: [...this.boxes], chosen: this.chosen };
    const { corner, number, proposal } = event.target.dataset;
    if (corner) this.drag = { kind: "resize", corner: corner.split(" "), from, start: [...this.boxes[this.chosen].box] };
    else if (number !== undefined) {
      this.chosen = Number(number);
      this.drag = { kind: "move", from, start: [...this.boxes[this.chosen].box] };
    } else this.drag = { kind: "draw", from, proposal };
    this.drag.before = before;
    this.draw();
  }

  #move(event) {
    if (!this.drag) return;
    const { kind, from, start, corner } = this.drag;
    const [x, y] = this.#point(event);
    const far = Math.abs(x - from[0]) > LEAST || Math.abs(y - from[1]) > LEAST;
    if (kind === "draw") {
      if (!this.drag.made && Math.min(Math.abs(x - from[0]), Math.abs(y - from[1])) < LEAST) return;
      if (!this.drag.made) this.chosen = this.boxes.push({ box: [], how: "drawn" }) - 1;
      this.drag.made = true;
      this.boxes[this.chosen].box = ordered([...from, x, y]);
    } else if (far || this.drag.made) {
      this.drag.made = true;
      const moved = kind === "move" ? this.#shifted(start, x - from[0], y - from[1]) : withCorner(start, corner, x, y);
      this.boxes[this.chosen] = { box: ordered(moved), how: "drawn" };
    }
    this.draw();
  }

  #up() {
    const { made, proposal, before } = this.drag || {};
    const drawn = made && this.drag.kind === "draw";
    this.drag = null;
    if (!made) return proposal === undefined ? this.draw() : this.adopt(Number(proposal));
    const [x1, y1, x2, y2] = this.boxes[this.chosen].box;
    if (x2 - x1 < LEAST || y2 - y1 < LEAST) { // a slip: "not visible" and deleting have buttons
      this.boxes = before.boxes;
      this.chosen = before.chosen;
      return this.draw();
    }
    this.draw();
    this.changed(this.boxes, { drawn });
  }

  /** Make a proposal a box that can be moved. */
  adopt(number) {
    this.chosen = this.boxes.push({ box: [...this.proposals[number].box], how: "proposed" }) - 1;
    this.draw();
    this.changed(this.boxes, {});
  }

  #shifted([x1, y1, x2, y2], dx, dy) {
    dx = clamp(dx, -x1, this.width - x2);
    dy = clamp(dy, -y1, this.height - y2);
    return [x1 + dx, y1 + dy, x2 + dx, y2 + dy];
  }

  // --- by keyboard --------------------------------------------------------------------------------

  addInMiddle() {
    const { width: w, height: h } = this;
    this.chosen = this.boxes.push({ box: [w * 0.35, h * 0.35, w * 0.65, h * 0.65], how: "drawn" }) - 1;
    this.draw();
    this.changed(this.boxes, {});
  }

  /** Move the chosen box by steps, or its lower right corner. Returns whether there is a box. */
  nudge(dx, dy, resize) {
    if (this.chosen < 0 && this.proposals.length) this.adopt(0);
    if (this.chosen < 0) return false;
    const step = Math.max(this.width, this.height) / 160;
    const { box } = this.boxes[this.chosen];
    const [x1, y1, x2, y2] = box;
    const moved = resize
      ? [x1, y1, clamp(x2 + dx * step, x1 + LEAST, this.width), clamp(y2 + dy * step, y1 + LEAST, this.height)]
      : this.#shifted(box, dx * step, dy * step);
    this.boxes[this.chosen] = { box: moved, how: "drawn" };
    this.draw();
    this.changed(this.boxes, { slowly: true });
    return true;
  }

  chooseOther() {
    if (this.boxes.length) this.chosen = (this.chosen + 1) % this.boxes.length;
    this.draw();
  }

  remove() {
    if (this.chosen < 0) return false;
    this.boxes.splice(this.chosen, 1);
    this.chosen = this.boxes.length - 1;
    this.draw();
    this.changed(this.boxes, { removed: true });
    return true;
  }
}

function ordered([x1, y1, x2, y2]) {
  return [Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)];
}

function withCorner([x1, y1, x2, y2], [cx, cy], x, y) {
  return [cx === "x1" ? x : x1, cy === "y1" ? y : y1, cx === "x2" ? x : x2, cy === "y2" ? y : y2];
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), Math.max(low, high));
}
