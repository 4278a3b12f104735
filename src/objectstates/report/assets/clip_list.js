// The list of clips: rows are built when they are scrolled into view, sorted, filtered, linked.

// --- rows are filled when they are scrolled near -----------------------------------------------------

function fill(number) {
  const body = rows.get(number).querySelector(".body");
  if (body.childElementCount) return;
  unpack(clips[number]);
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

// Paper has all rows, and the tables too.
const closed = [];
window.addEventListener("beforeprint", () => {
  for (const [number, row] of rows) if (!row.hidden) fill(number);
  for (const image of document.querySelectorAll("img[loading]")) image.loading = "eager";
  for (const table of document.querySelectorAll("details:not([open])")) { table.open = true; closed.push(table); }
});
window.addEventListener("afterprint", () => { for (const table of closed.splice(0)) table.open = false; });

// --- sorting and filtering ---------------------------------------------------------------------------

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

// --- links to a clip from the rest of the page -------------------------------------------------------

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

refresh();
