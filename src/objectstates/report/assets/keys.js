// Keys, and which of the rows is current.

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
