// The studio's page: shows the state of the project, and sends what the user does.
import { api, answer, attempt, confirmed, count, element, listen, sentence, toast } from "/assets/common.js";

const FEW = 12; // videos; fewer often have something else in common, too
const SHOWN = 18; // videos shown at first
const FORMATS = {
  csv: ["Spreadsheet", "a CSV table per kind: clips, states, tracklets"],
  jsonl: ["JSON lines", "one object per clip, for scripts"],
  webvtt: ["Subtitles", "WebVTT: the answers while the video plays"],
  coco: ["COCO", "frames with boxes, for training detectors"],
  cvat: ["CVAT", "tracks, to correct in CVAT"],
  labelstudio: ["Label Studio", "tasks with predictions"],
  rerun: ["Rerun", "a recording for the Rerun viewer"],
  crops: ["Crops", "images of the object by state, for classifiers"],
};
const STAGES = { start: "Starting", ingest: "Reading the videos", fit: "Finding what they have in common", report: "Writing the report" };

const at = (id) => document.getElementById(id);
let state = null;
let showAll = false;

// --- showing the state ----------------------------------------------------------------------------

let reading = null;
let again = false;

/** Read the state and show it; one reading at a time, so that none shows what is older. */
function refresh() {
  again = true;
  reading ??= attempt(async () => {
    while (again) {
      again = false;
      show(await api("GET", "/api/state"));
    }
  }).finally(() => { reading = null; });
  return reading;
}

let wanted = null;
function refreshSoon() {
  wanted ??= setTimeout(() => { wanted = null; refresh(); }, 80);
}

function show(next) {
  state = next;
  at("project").textContent = state.project;
  showVideos();
  showNames();
  showBoxes();
  showDiscovery();
  showReview();
  showExports();
  showSteps();
}

function status(step, text) {
  const place = document.querySelector(`#step-${step} .status`);
  if (place.textContent !== text) place.textContent = text;
}

function showVideos() {
  const { videos, gone } = state;
  const seconds = videos.reduce((sum, video) => sum + (video.seconds || 0), 0);
  const broken = videos.filter((video) => video.error).length;
  const parts = [count(videos.length, "video")];
  if (seconds) parts.push(duration(seconds));
  if (broken) parts.push(`${broken} cannot be read`);
  if (videos.length && videos.length < FEW) parts.push("a dozen or more are better");
  status("videos", videos.length ? parts.join(" · ") : "");
  at("folders").replaceChildren(
    ...state.folders.map((folder) => element("li", {}, element("code", {}, folder),
      element("button", { type: "button", class: "quiet", onclick: () => send("folders/remove", { path: folder }) }, "Do not use"))),
    ...gone.map((text) => element("li", { role: "alert" }, sentence(text))),
  );
  at("unreadable").replaceChildren(...videos.filter((video) => video.error).map((video) => element("li", {}, element("strong", {}, video.name), `: ${video.error}`)));
  const shown = showAll ? videos : videos.slice(0, SHOWN);
  const list = at("videos");
  const kept = new Map([...list.children].map((item) => [item.dataset.key, item]));
  list.replaceChildren(...shown.map((video) => {
    const key = JSON.stringify([video.id, video.stamp, video.seconds, video.error, video.own]);
    return kept.get(key) || videoItem(video, key);
  }));
  at("more").hidden = videos.length <= SHOWN;
  at("more").textContent = showAll ? "Show fewer" : `Show all ${videos.length}`;
}

function videoItem(video, key) {
  const picture = element("div", { class: "picture" });
  if (video.error) {
    picture.append("cannot be read");
  } else if (video.seconds === null) {
    picture.append("reading");
  } else {
    const query = new URLSearchParams({ clip: video.id, time: (video.seconds / 2).toFixed(3), side: 280, v: video.stamp });
    picture.append(element("img", { src: `/frame?${query}`, alt: "", loading: "lazy" }));
  }
  const item = element("li", { class: video.error ? "video broken" : "video" }, picture,
    element("span", { class: "name", title: video.name }, video.id),
    element("span", { class: "muted num" }, video.seconds ? duration(video.seconds) : " "));
  item.dataset.key = key;
  if (video.own) {
    item.append(element("button", { type: "button", class: "remove", "aria-label": `Remove ${video.id}`, onclick: () => removeVideo(video) }, "✕"));
  }
  return item;
}

function showNames() {
  for (const input of at("names").elements) {
    // What the user has typed and was not sent yet stays.
    const typed = input === document.activeElement || (input.dataset.shown !== undefined && input.value !== input.dataset.shown);
    if (!typed || input.value === state.choices[input.name]) input.value = input.dataset.shown = state.choices[input.name];
    if (input.name !== "object") input.disabled = state.named_in_review;
  }
  const { object, state_1: before, action, state_2: after } = state.choices;
  at("names-note").textContent = state.named_in_review ? "The names of the answers are changed in the review." : "The last three are only names for the answers; they may stay empty.";
  status("names", [object, [before, action, after].filter(Boolean).join(" → ")].filter(Boolean).join(": "));
}

function showBoxes() {
  const { boxes } = state.choices;
  for (const input of document.querySelectorAll("input[name=boxes]")) input.checked = input.value === boxes;
  at("label").parentElement.hidden = boxes !== "labels";
  at("label").textContent = state.detector ? "Draw more boxes" : state.drawn ? "Go on, and train the detector" : "Draw boxes";
  const drawn = state.drawn ? count(state.drawn, "labelled frame") : "";
  const known = [drawn, state.detector ? "the detector is trained" : ""].filter(Boolean).join(" · ");
  status("boxes", boxes === "labels" ? known : "what moves and changes");
}

function showDiscovery() {
  const { job, found, progress } = state;
  const running = job.state === "running";
  at("progress").hidden = !running;
  if (running) showProgress(progress || { stage: "start" });
  const failed = job.state === "failed" || (job.state === "interrupted" && !running);
  at("failure").hidden = !failed;
  if (failed) at("failure").textContent = job.state === "failed" ? sentence(job.error) : "The server was stopped during the discovery. It goes on from there.";
  at("outcome").hidden = running || !found;
  if (found && !running) at("outcome").replaceChildren(...outcome(found));
  const button = at("discover");
  at("discover-row").hidden = running;
  button.textContent = { cancelled: "Continue", interrupted: "Continue", failed: "Try again" }[job.state] || (found ? "Discover again" : "Discover");
  const cancelled = job.state === "cancelled" ? "cancelled; it goes on from there" : "";
  const outdated = state.outdated ? "videos or boxes have changed since" : "";
  status("discover", running ? "" : cancelled || outdated);
  document.querySelector("#command code").textContent = command();
}

let began = null; // when the first clip of this page's view was read, and how many were then

/** "about 3 min left", once a few clips have shown how long they take. */
function timeLeft(stage, done, total) {
  if (stage !== "ingest" || !total) {
    began = null;
    return "";
  }
  began ??= { at: Date.now(), done };
  const read = done - began.done;
  if (read < 2 || done >= total) return "";
  const seconds = ((Date.now() - began.at) / 1000 / read) * (total - done);
  return ` · about ${seconds < 90 ? `${Math.max(10, Math.ceil(seconds / 10) * 10)} s` : `${Math.round(seconds / 60)} min`} left`;
}

function showProgress({ stage, done, total, frames, text }) {
  at("stage").textContent = STAGES[stage] || stage;
  const amount = total ? `${done} of ${total}${frames ? ` · ${frames} frames` : ""}${timeLeft(stage, done, total)}` : text || "";
  at("amount").textContent = amount;
  const bar = at("bar");
  if (total) {
    bar.max = total;
    bar.value = done;
  } else {
    bar.removeAttribute("value");
  }
}

function outcome(found) {
  const made = [element("h3", {}, found.headline)];
  if (found.sides.length) {
    made.push(element("div", { class: "verdict" },
      element("ul", { class: "findings" }, ...found.sides.map((side) => element("li", {},
        element("span", { class: `finding ${side.finding}` }, `${side.name} ${side.word}`), " ",
        element("span", { class: "muted" }, side.expected)))),
      element("p", {}, plain(found.why)), found.remedy ? element("p", { class: "muted" }, plain(found.remedy)) : null));
  }
  const notes = [
    ...found.advice.map((each) => `${each.text} ${each.remedy}`),
    ...found.left_out.map((text) => `Left out: ${text}`),
    ...state.problems,
  ];
  if (notes.length) made.push(element("ul", { class: "advice" }, ...notes.map((text) => element("li", {}, plain(text)))));
  const missed = found.sides.some((side) => side.finding !== "found");
  const row = element("p", { class: "row" });
  if (missed && state.choices.boxes === "motion") {
    row.append(element("button", { type: "button", class: "quiet", onclick: async () => {
      await send("choices", { boxes: "labels" });
      at("step-boxes").scrollIntoView();
    } }, "Draw boxes after all"));
  }
  if (found.report) row.append(element("a", { class: "quiet", href: "/report", target: "_blank", rel: "noopener" }, "Open the report"));
  made.push(row);
  return made;
}

function showReview() {
  const { found } = state;
  const link = at("review");
  link.setAttribute("aria-disabled", String(!found));
  link.textContent = found?.unwritten ? "Finish the review" : "Review the clips";
  if (found?.unwritten) status("review", "corrections are not in the result yet: press Finish in the review");
  else status("review", found?.corrected ? `${count(found.corrected, "clip")} corrected` : "");
}

function showExports() {
  at("formats").replaceChildren(...state.exports.map(({ format, folder }) => {
    const [name, text] = FORMATS[format] || [format, ""];
    return element("li", { class: "format" },
      element("div", { class: "row" }, element("strong", {}, name),
        element("button", { type: "button", class: "quiet", disabled: !state.found, "aria-label": `Export as ${name}`, onclick: (event) => exportTo(format, event.currentTarget) }, folder ? "Again" : "Export")),
      element("span", { class: "muted" }, text),
      folder ? element("span", { class: "where" }, element("code", {}, folder)) : null);
  }));
  at("export-all").disabled = !state.found;
  const written = state.exports.filter((each) => each.folder).length;
  if (state.found?.unwritten) status("export", "finish the review first, or they are without your corrections");
  else status("export", written ? `${written} of ${state.exports.length} formats written` : "");
}

/** Mark steps as done, current or later; the current one has the prominent button. */
function showSteps() {
  const { choices, found } = state;
  const running = state.job.state === "running";
  const done = {
    videos: state.videos.filter((video) => !video.error).length >= 2,
    names: Boolean(choices.object),
    boxes: choices.boxes === "motion" || state.detector,
    discover: Boolean(found) && !state.outdated && !running && state.job.state === "done",
    review: Boolean(found?.corrected) && !found.unwritten,
    export: state.exports.some((each) => each.folder),
  };
  const order = Object.keys(done);
  const current = order.find((name) => !done[name]) ?? null;
  const next = current === null ? order.length : order.indexOf(current);
  for (const name of order) {
    const step = at(`step-${name}`);
    step.classList.toggle("done", done[name]);
    step.classList.toggle("current", name === current);
    step.classList.toggle("later", !done[name] && order.indexOf(name) > next && !(found && order.indexOf(name) > 3));
    if (name === current) step.setAttribute("aria-current", "step");
    else step.removeAttribute("aria-current");
  }
  const main = { boxes: "label", discover: "discover", review: "review", export: "export-all" };
  for (const [name, id] of Object.entries(main)) at(id).className = name === current ? "primary" : "quiet";
}

/** The command with which a terminal does the same; quoted for a POSIX shell. */
function command() {
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const { choices } = state;
  const own = state.videos.some((video) => video.own) ? [`${state.project}/videos`] : [];
  const words = ["objectstates", "discover", ...own, ...state.folders, "--out", `${state.project}/found`];
  if (choices.object) words.push("--object", choices.object);
  words.push("--detector", choices.boxes === "labels" ? `fewshot:${state.detector_file || "detector.npz"}` : "motion");
  if (choices.state_1 || choices.state_2) words.push("--states", `${choices.state_1 || "state 1"},${choices.state_2 || "state 2"}`);
  if (choices.action) words.push("--action", choices.action);
  return words.map(quoted).join(" ");
}

// --- what the user does ---------------------------------------------------------------------------

async function send(path, body) {
  await attempt(() => api("POST", `/api/${path}`, body));
  await refresh();
}

async function removeVideo(video) {
  if (await confirmed(`Remove ${video.name} from the project? The copy in the project is deleted.`, "Remove")) {
    await send("videos/remove", { clip: video.id });
  }
}

async function exportTo(format, button) {
  button.disabled = true;
  const text = button.textContent;
  button.textContent = "Writing";
  await attempt(async () => {
    const done = await api("POST", "/api/export", { format });
    toast(done.problems.length ? `Written. ${sentence(done.problems[0])}` : "Written.");
  });
  button.textContent = text;
  button.disabled = false;
  await refresh();
}

at("names").addEventListener("submit", (event) => event.preventDefault());
at("names").addEventListener("change", () => {
  const values = Object.fromEntries([...new FormData(at("names"))]);
  send("choices", values);
});
for (const input of document.querySelectorAll("input[name=boxes]")) {
  input.addEventListener("change", () => send("choices", { boxes: input.value }));
}
at("more").addEventListener("click", () => {
  showAll = !showAll;
  showVideos();
});
at("discover").addEventListener("click", () => send("discover", {}));
at("cancel").addEventListener("click", async () => {
  at("cancel").disabled = true;
  await send("cancel", {});
  at("cancel").disabled = false;
});
at("export-all").addEventListener("click", (event) => exportTo("all", event.currentTarget));
at("review").addEventListener("click", (event) => {
  if (state?.found) return;
  event.preventDefault();
  toast("There is nothing to review yet: discover first.");
});
at("label").addEventListener("click", (event) => {
  if (state?.videos.length && state.choices.object) return;
  event.preventDefault();
  toast(state?.videos.length ? "First say what the object is." : "First add videos.");
  if (state?.videos.length) at("names").elements.object.focus();
});
at("folder-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const input = at("folder-path");
  const button = at("folder-use");
  button.disabled = true;
  button.textContent = "Searching";
  const taken = await attempt(async () => {
    const { clips } = await api("POST", "/api/folders", { path: input.value });
    toast(`${count(clips, "clip")} in this folder.`);
    input.value = "";
  });
  input.setAttribute("aria-invalid", String(!taken));
  button.disabled = false;
  button.textContent = "Use";
  await refresh();
});
at("folder-path").addEventListener("input", () => at("folder-path").removeAttribute("aria-invalid"));

// --- uploads --------------------------------------------------------------------------------------

const queue = [];
let uploading = false;
let sent = { files: 0, of: 0, bytes: 0, total: 0 };

function upload(files) {
  const found = [...files].filter((file) => file.size && !file.name.startsWith("."));
  for (const file of found) {
    queue.push(file);
    sent.of += 1;
    sent.total += file.size;
  }
  if (found.length < files.length) toast("Empty and hidden files were left out.");
  if (!uploading && queue.length) uploadAll();
}

async function uploadAll() {
  uploading = true;
  const failed = [];
  while (queue.length) {
    const file = queue.shift();
    const before = sent.bytes;
    try {
      await put(file, (bytes) => showUpload(file.name, before + bytes));
      sent.files += 1;
    } catch (problem) {
      failed.push(problem.message);
    }
    sent.bytes = before + file.size;
  }
  uploading = false;
  const { files } = sent;
  sent = { files: 0, of: 0, bytes: 0, total: 0 };
  at("uploads").replaceChildren(...failed.map((text) => element("p", {}, text)));
  if (files) toast(`${count(files, "video")} added.`);
  await refresh();
}

/** XMLHttpRequest, because fetch does not tell how much was sent. */
function put(file, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/api/upload?${new URLSearchParams({ name: file.name })}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => progress(event.loaded);
    request.onload = () => {
      const response = new Response(request.response, { status: request.status });
      answer(response).then(resolve, reject);
    };
    request.onerror = () => reject(new Error(`${file.name} was not received: the server refused it or has stopped.`));
    request.send(file);
  });
}

function showUpload(name, bytes) {
  const place = at("uploads");
  if (!place.querySelector("progress")) place.replaceChildren(element("span", {}), element("progress", { "aria-label": "Copying videos" }));
  place.firstChild.textContent = `Copying ${sent.files + 1} of ${sent.of}: ${name} · ${megabytes(bytes)} of ${megabytes(sent.total)}`;
  place.lastChild.max = sent.total;
  place.lastChild.value = bytes;
}

at("files").addEventListener("change", (event) => {
  upload(event.target.files);
  event.target.value = "";
});

// The whole window takes drops, so that a video dropped beside the frame does not replace the page.
let depth = 0;
addEventListener("dragenter", (event) => {
  event.preventDefault();
  depth += 1;
  at("drop").classList.add("over");
});
addEventListener("dragleave", () => {
  depth -= 1;
  if (depth <= 0) at("drop").classList.remove("over");
});
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", async (event) => {
  event.preventDefault();
  depth = 0;
  at("drop").classList.remove("over");
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plainFiles = [...event.dataTransfer.files];
  const found = entries.length ? (await Promise.all(entries.map(filesOf))).flat() : plainFiles;
  const videos = found.filter((file) => file.type.startsWith("video/") || /\.(3gp|avi|flv|m2ts|m4v|mkv|mov|mp4|mpe?g|mts|ogv|ts|vob|webm|wmv)$/i.test(file.name));
  if (found.length && !videos.length) toast("There are no videos among these files.", { error: true });
  upload(videos);
});

/** All files of a dropped file or folder. */
async function filesOf(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    found.push(...(await Promise.all(some.map(filesOf))).flat());
  }
  return found;
}

// --- text -----------------------------------------------------------------------------------------

function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function megabytes(bytes) {
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

function plain(text) {
  return text.replaceAll("`", "");
}

listen("hello", refresh);
listen("studio.changed", refreshSoon);
for (const kind of ["review.finish", "review.changed", "label.state"]) listen(kind, refreshSoon);
listen("studio.progress", (progress) => {
  if (state?.job.state === "running") showProgress(progress);
});
sessionStorage.setItem("studio", "/"); // the other pages then show the way back
if (location.hash.startsWith("#problem=")) {
  toast(sentence(decodeURIComponent(location.hash.slice("#problem=".length))), { error: true });
  history.replaceState(null, "", "/");
}
refresh();
