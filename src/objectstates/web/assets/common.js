// What the local pages have in common: requests, events, messages, shortcuts, making elements.

/** Make an element; text and children are never parsed as HTML. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else if (key in made && !key.includes("-")) made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Ask the server; resolves to its JSON, rejects with an Error whose message can be shown. */
export async function api(method, url, body, { signal } = {}) {
  let response;
  try {
    response = await fetch(url, {
      method,
      signal,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    offline(true);
    throw new Error("The server does not answer. Start the command again in the terminal.");
  }
  offline(false);
  return answer(response);
}

/** The JSON of a response, or an Error with the server's sentence. */
export async function answer(response) {
  const found = await response.json().catch(() => ({}));
  if (response.ok) return found;
  const problem = new Error(sentence(found.error || `The server answered ${response.status}.`));
  problem.status = response.status;
  throw problem;
}

/** Put the text into a sentence's form. */
export function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

/** "1 clip", "2 clips"; nouns with another plural name it. */
export function count(n, word, plural = `${word}s`) {
  return `${n} ${n === 1 ? word : plural}`;
}

// --- events ---------------------------------------------------------------------------------------

const listeners = new Map();
let source = null;

/** Call back with the data of each event of a kind; "hello" comes after each (new) connection. */
export function listen(kind, callback) {
  if (!listeners.has(kind)) {
    listeners.set(kind, []);
    source?.addEventListener(kind, deliver);
  }
  listeners.get(kind).push(callback);
  connect();
}

function deliver(event) {
  const data = JSON.parse(event.data);
  for (const callback of listeners.get(event.type) || []) callback(data);
}

function connect() {
  // A browser allows few connections to a server; a hidden tab needs none.
  if (source || document.hidden) return;
  source = new EventSource("/events");
  source.onopen = () => offline(false);
  source.onerror = () => {
    offline(true);
    if (source?.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(connect, 3000);
    }
  };
  for (const kind of listeners.keys()) source.addEventListener(kind, deliver);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (listeners.size) {
    connect();
  }
});
addEventListener("pagehide", () => {
  source?.close();
  source = null;
});
addEventListener("pageshow", (event) => {
  if (event.persisted && listeners.size) connect();
});

let banner = null;

function offline(is) {
  if (is === Boolean(banner)) return;
  if (is) {
    banner = element("p", { id: "offline", role: "alert" });
    banner.textContent = "The server has stopped. Nothing is lost: start the command again, and open the address that it prints.";
    document.body.prepend(banner);
  } else {
    banner.remove();
    banner = null;
  }
}

// --- messages -------------------------------------------------------------------------------------

/** Show a short message for some seconds; errors stay longer. Screen readers read it. */
export function toast(text, { error = false } = {}) {
  let place = document.getElementById("toasts");
  if (!place) {
    place = element("div", { id: "toasts", role: "status", "aria-live": "polite" });
    document.body.append(place);
  }
  const made = element("div", { class: error ? "toast error" : "toast" }, text);
  made.addEventListener("click", () => made.remove());
  while (place.childElementCount >= 4) place.firstChild.remove();
  place.append(made);
  setTimeout(() => made.remove(), error ? 9000 : 4000);
}

/** Run an action; an error becomes a toast. Returns whether it succeeded. */
export async function attempt(action) {
  try {
    await action();
    return true;
  } catch (problem) {
    if (problem.name !== "AbortError") toast(problem.message, { error: true });
    return false;
  }
}

/** Ask before something that cannot be undone; resolves to true or false. */
export function confirmed(question, yes = "OK", no = "Cancel") {
  return new Promise((resolve) => {
    const dialog = element("dialog", { "aria-label": question }, element("p", {}, question),
      element("div", { class: "row end" },
        element("button", { type: "button", class: "quiet", onclick: () => dialog.close("no") }, no),
        element("button", { type: "button", class: "primary", onclick: () => dialog.close("yes") }, yes)));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// --- shortcuts ------------------------------------------------------------------------------------

/**
 * Keys of the page: {"ArrowRight": {does: "next clip", run: (event) => ...}, "Shift+x": ...}.
 * They are not taken while the user types; "?" lists them.
 */
export function shortcuts(table) {
  const known = new Map(Object.entries(table));
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const name = keyName(event);
    if (name === "?") {
      event.preventDefault();
      showKeys(known);
      return;
    }
    const found = known.get(name);
    // Space and Enter on a button press the button.
    if (!found || ((event.key === " " || event.key === "Enter") && event.target.closest?.("button, a, summary"))) return;
    event.preventDefault();
    found.run(event);
  });
  return () => showKeys(known);
}

function keyName(event) {
  const held = (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (event.shiftKey && event.key.length > 1 ? "Shift+" : "");
  return held + (event.key === " " ? "Space" : event.key);
}

function isTyping(target) {
  return target instanceof Element && Boolean(target.closest("input:not([type=range]):not([type=checkbox]):not([type=radio]):not([type=button]), textarea, select, [contenteditable]"));
}

const SIGNS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };

function showKeys(known) {
  const list = element("dl", { class: "keys" });
  const rows = new Map(); // keys that do the same share a row
  for (const [name, { does }] of known) {
    const sign = name.split("+").map((part) => SIGNS[part] || part).join(" ");
    if (!rows.has(does)) {
      rows.set(does, element("dt", {}));
      list.append(rows.get(does), element("dd", {}, does));
    }
    rows.get(does).append(element("kbd", {}, sign), " ");
  }
  const dialog = element("dialog", { "aria-label": "Keys" }, element("h2", {}, "Keys"), list,
    element("div", { class: "row end" }, element("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// --- the way back ---------------------------------------------------------------------------------

// Pages that were opened from the studio lead back to it: see web.css for what they then show.
if (location.pathname !== "/" && sessionStorage.getItem("studio")) {
  document.documentElement.dataset.studio = "";
  document.querySelector("header")?.prepend(element("a", { class: "quiet", href: "/" }, "← Studio"));
}
