// Emoji as pictures, so that they do not depend on the fonts of the machine.

import { el, svg } from "/page/dom.js";

export const NAMES = {
  "😂": "joy", "❤": "heart", "😍": "adoring", "😭": "crying", "🔥": "fire", "😎": "cool",
  "⭐": "star", "🐱": "cat", "😡": "angry", "🌈": "rainbow", "😴": "asleep", "🎈": "balloon",
};

/** Return the picture of an emoji, or its text if there is none. */
export function emojiPicture(item) {
  if (!(item in NAMES)) return el("span", { "aria-hidden": "true" }, item);
  return svg("svg", { class: "sign", "aria-hidden": "true" }, svg("use", { href: `#${NAMES[item]}` }));
}

export const emojiName = (item) => NAMES[item] ?? item;
