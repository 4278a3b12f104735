// Light or dark, as the reader chooses.

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
