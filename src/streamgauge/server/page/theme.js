// Light and dark theme: that of the system, until the user chooses. Loaded first, so that nothing flashes.

const ORDER = ["system", "light", "dark"];
const WORDS = { system: "as the system has them", light: "light", dark: "dark" };
const SIGNS = { system: "◐", light: "☀", dark: "☾" };

const root = document.documentElement;
const button = document.getElementById("theme");

const chosen = () => {
  try {
    return localStorage.getItem("theme") ?? "system";
  } catch {
    return "system";
  }
};

function wear(theme) {
  root.dataset.theme = theme;
  button.textContent = SIGNS[theme];
  button.setAttribute("aria-label", `Colours: ${WORDS[theme]}`);
  button.title = `Colours: ${WORDS[theme]}`;
  document.dispatchEvent(new CustomEvent("theme"));
}

button.addEventListener("click", () => {
  const next = ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length];
  try {
    localStorage.setItem("theme", next);
  } catch { /* a browser that keeps nothing forgets it with the page */ }
  wear(next);
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("theme")));
wear(ORDER.includes(chosen()) ? chosen() : "system");
