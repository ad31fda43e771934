// DOM elements from text and attributes, never from markup, so that labels cannot inject elements.

export const byId = (id) => document.getElementById(id);

/** el("p", {class: "hint"}, "text", node): functions become listeners; false and null attributes are omitted. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A group of buttons of which exactly one is pressed. */
export function choice(label, options, selected, onSelect) {
  const buttons = options.map(([value, text]) =>
    el("button", { type: "button", "aria-pressed": String(value === selected), "data-value": value, click: () => select(value) }, text));
  const select = (value) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    onSelect(value);
  };
  return el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

export const show = (node, visible) => { node.hidden = !visible; };
