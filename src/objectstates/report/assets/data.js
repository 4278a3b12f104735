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
