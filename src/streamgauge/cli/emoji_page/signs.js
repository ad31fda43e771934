// Emoji as pictures of our own, the same on every machine, whichever fonts it has.

import { el, svg } from "/page/dom.js";

export const NAMES = {
  "😂": "joy", "❤": "heart", "😍": "adoring", "😭": "crying", "🔥": "fire", "😎": "cool",
  "⭐": "star", "🐱": "cat", "😡": "angry", "🌈": "rainbow", "😴": "asleep", "🎈": "balloon",
};

/** A picture, which the page has drawn, or the letters of what there is no picture of. */
export function sign(item) {
  if (!(item in NAMES)) return el("span", { "aria-hidden": "true" }, item);
  return svg("svg", { class: "sign", "aria-hidden": "true" }, svg("use", { href: `#${NAMES[item]}` }));
}

export const named = (item) => NAMES[item] ?? item;
