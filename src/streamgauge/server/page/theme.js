// Light and dark theme. The default is that of the system. This script loads first, so that the page does not flash.

const ORDER = ["system", "light", "dark"];
const NAMES = { system: "system", light: "light", dark: "dark" };
const SIGNS = { system: "◐", light: "☀", dark: "☾" };

const root = document.documentElement;
const button = document.getElementById("theme");

const loadTheme = () => {
  try {
    return localStorage.getItem("theme") ?? "system";
  } catch {
    return "system";
  }
};

function applyTheme(theme) {
  root.dataset.theme = theme;
  button.textContent = SIGNS[theme];
  button.setAttribute("aria-label", `Colours: ${NAMES[theme]}`);
  button.title = `Colours: ${NAMES[theme]}`;
  document.dispatchEvent(new CustomEvent("theme"));
}

button.addEventListener("click", () => {
  const next = ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length];
  try {
    localStorage.setItem("theme", next);
  } catch { /* without storage, the choice lasts until the page closes */ }
  applyTheme(next);
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("theme")));
applyTheme(ORDER.includes(loadTheme()) ? loadTheme() : "system");
