// Elements built from text and attributes, never from markup, so that labels cannot inject elements.

export const byId = (id) => document.getElementById(id);

/** el("p", {class: "hint"}, "text", node): functions become listeners; false and null attributes are omitted. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Buttons of which exactly one is pressed; the keyboard reaches each by Tab. */
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    el("button", { type: "button", "aria-pressed": String(value === chosen), "data-value": value, click: () => press(value) }, text));
  const press = (value) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    choose(value);
  };
  return el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

export const show = (node, shown) => { node.hidden = !shown; };
