"""JavaScript that tests evaluate in a page."""

ONE_PLOT = """() => { const plot = document.querySelector('[data-release="fever_by_region"] .plot');
  return plot.querySelectorAll('.subplot').length === 1 && plot.data.some(({name}) => name === 'north'); }"""
BEYOND = """
[...document.querySelectorAll('main *')].filter((node) => !node.closest('.wide, .plot, svg')
  && node.getBoundingClientRect().right > 361).length
"""
CONTRAST = """
(() => {
  const parse = (text) => text.match(/[0-9.]+/g).map(Number);
  const curve = (c) => (c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => .2126 * curve(r / 255) + .7152 * curve(g / 255) + .0722 * curve(b / 255);
  const paper = (node) => parse(getComputedStyle(node).backgroundColor);
  const behind = (node) => (paper(node).length === 3 ? paper(node) : behind(node.parentElement));
  const bad = [];
  const all = 'h1, h2, h3, p, b, dt, dd, th, td, label, small, a, span, button, summary';
  for (const node of document.querySelectorAll(all)) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.offsetParent || node.closest('.top, .plot, :disabled')) continue;
    const [front, back] = [parse(getComputedStyle(node).color), behind(node)].map(light);
    const ratio = (Math.max(front, back) + .05) / (Math.min(front, back) + .05);
    if (ratio < 4.5) bad.push([node.className, node.textContent.slice(0, 30), ratio]);
  }
  return bad;
})()
"""
