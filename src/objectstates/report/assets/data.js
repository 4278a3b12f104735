// The data of the page, the words for labels, and small helpers. All scripts of the page share one scope.

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

// --- numbers that are stored in short -----------------------------------------------------------------

// Before a clip is drawn: times of its chunks, scores as [time, score of each action], boxes of its tracklets.
function unpack(clip) {
  if (clip.unpacked) return;
  clip.unpacked = true;
  const [first, step] = clip.times;
  const count = Math.max(clip.scores.length ? clip.scores[0].length : 0, clip.progress ? clip.progress.length : 0);
  const times = clip.times.length > 2 ? clip.times : Array.from({ length: count }, (_, k) => first + k * step);
  clip.scores = (clip.scores[0] ?? []).map((_, k) => [times[k], ...clip.scores.map((scores) => scores[k] / 10000)]);
  if (clip.progress) clip.progress = clip.progress.map((value, k) => [times[k], value / 100]);
  for (const tracklet of clip.tracklets) tracklet[6] = unpackBoxes(tracklet[6]);
}

// From time in hundredths of a second, x, y, width, height, each minus that of the box before, to [time, x1, y1, x2, y2].
function unpackBoxes(differences) {
  const boxes = [];
  let [time, x, y, width, height] = [0, 0, 0, 0, 0];
  for (let k = 0; k < differences.length; k += 5) {
    time += differences[k];
    x += differences[k + 1];
    y += differences[k + 2];
    width += differences[k + 3];
    height += differences[k + 4];
    boxes.push([time / 100, x, y, x + width, y + height]);
  }
  return boxes;
}

// --- helpers -----------------------------------------------------------------------------------------

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
