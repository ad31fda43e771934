// Emoji as pictures, the same on every machine, whatever its fonts.

import { el, svg } from "/page/dom.js";

export const NAMES = {
  "😂": "joy", "❤": "heart", "😍": "adoring", "😭": "crying", "🔥": "fire", "😎": "cool",
  "⭐": "star", "🐱": "cat", "😡": "angry", "🌈": "rainbow", "😴": "asleep", "🎈": "balloon",
};

/** The picture of an emoji, or its text if there is no picture. */
export function sign(item) {
  if (!(item in NAMES)) return el("span", { "aria-hidden": "true" }, item);
  return svg("svg", { class: "sign", "aria-hidden": "true" }, svg("use", { href: `#${NAMES[item]}` }));
}

export const named = (item) => NAMES[item] ?? item;
