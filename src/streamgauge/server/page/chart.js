// One measure of a release over time: a line for each group with its 95 % band, all together or each apart.

import { dashOf, faded, ofGroup, palette } from "./palette.js";
import { plain, plusMinus, rounded } from "./numbers.js";

const SETTINGS = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" };
const FONT = '"Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
const GAP = 0.06; // between columns
const WIDE = 5; // times the usual band
const TITLE = 30; // pixels above a panel

/** view: {lines: [{name, index, column, truth}], apart, columns, width, height, zoomed}. */
export function draw(node, view) {
  const colours = palette();
  const touch = matchMedia("(pointer: coarse)").matches;
  const traces = view.lines.flatMap((line, i) => tracesOf(line, view.apart ? i + 1 : 1, colours));
  return window.Plotly.react(node, traces, layout(view, colours, touch), SETTINGS);
}

export const forget = (node) => window.Plotly.purge(node);

function tracesOf({ name, index, column, truth }, panel, colours) {
  const colour = ofGroup(colours, index);
  const axes = { xaxis: `x${panel > 1 ? panel : ""}`, yaxis: `y${panel > 1 ? panel : ""}` };
  const still = { ...axes, x: column.time, type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false };
  const band = column.high.some((high) => high !== null)
    ? [{ ...still, y: column.low, line: { width: 0 } },
      { ...still, y: column.high, line: { width: 0 }, fill: "tonexty", fillcolor: faded(colour, 0.17) }]
    : [];
  const line = {
    ...axes, x: column.time, y: column.value, name, type: "scatter", mode: column.time.length > 1 ? "lines" : "markers",
    line: { color: colour, width: 2, dash: dashOf(index) }, marker: { color: colour, size: 7 },
    text: column.value.map((_, i) => told(column, i)), hovertemplate: "%{text}",
    hoverlabel: { namelength: 30 },
  };
  const real = truth
    ? [{ ...still, y: truth, name: `${name}, the truth`, hoverinfo: "all", line: { color: colours.ink, width: 1.4, dash: "dot" },
      text: truth.map((value) => plain(value)), hovertemplate: "%{text}" }]
    : [];
  return [...band, line, ...real];
}

function told(column, i) {
  const error = column.most ? bound(column.most[i]) : "";
  const few = column.enough[i] === false ? " (too few to tell)" : "";
  return (column.most ? rounded(column.value[i], column.most[i]) : plusMinus(column.value[i], half(column, i) ?? NaN)) + error + few;
}

const bound = (most) => (most === null ? "" : ` (standard error at most ${rounded(most, most)})`);

function layout(view, colours, touch) {
  const axis = {
    gridcolor: colours.rule, zerolinecolor: colours.rule, linecolor: colours.rule, tickfont: { size: 11, color: colours.faint },
    automargin: true, fixedrange: touch,
  };
  const base = {
    width: view.width, height: view.height, margin: { l: 8, r: 12, t: view.apart ? 22 : 8, b: 8 }, showlegend: false, hovermode: "x unified",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: FONT, size: 12, color: colours.ink },
    hoverlabel: { bgcolor: colours.paper, bordercolor: colours.rule, font: { color: colours.ink, family: FONT, size: 12 } },
    dragmode: touch ? false : "zoom", uirevision: view.zoomed, annotations: [],
  };
  const time = { ...axis, type: "date", showgrid: false, nticks: view.width < 480 ? 3 : 6, tickangle: 0, showspikes: false, hoverformat: "%H:%M:%S" };
  const number = { ...axis, nticks: 5, separatethousands: true, range: span(view.lines) };
  if (!view.apart) return { ...base, xaxis: time, yaxis: number };
  return { ...base, ...panels(view, colours, time, number, base.annotations) };
}

/** What the vertical axis shows: all values, and bands but for those far wider than most, as of first ticks. */
function span(lines) {
  const halves = lines.flatMap(({ column }) => column.value.map((_, i) => half(column, i))).filter((width) => width !== null).sort((one, other) => one - other);
  const most = (halves[Math.floor(halves.length / 2)] ?? 0) * WIDE;
  const shown = lines.flatMap(({ column, truth }) => [...column.value, ...(truth ?? []),
    ...column.value.flatMap((_, i) => (half(column, i) !== null && half(column, i) <= most ? [column.low[i], column.high[i]] : []))])
    .filter((value) => value !== null);
  if (!shown.length) return undefined;
  const [low, high] = shown.reduce(([least, greatest], value) => [Math.min(least, value), Math.max(greatest, value)], [Infinity, -Infinity]);
  const room = 0.06 * (high - low) || 1;
  return [low - room, high + room];
}

const half = (column, i) => (column.high[i] === null || column.low[i] === null ? null : (column.high[i] - column.low[i]) / 2);

/** A grid of panels with the same axes. */
function panels({ lines, columns, height }, colours, time, number, annotations) {
  const rows = Math.ceil(lines.length / columns);
  const axes = {};
  lines.forEach((line, i) => {
    const end = i ? i + 1 : "";
    const x = domain(i % columns, columns, GAP);
    const y = domain(rows - 1 - Math.floor(i / columns), rows, TITLE / height);
    const first = i % columns === 0;
    axes[`xaxis${end}`] = { ...time, domain: x, anchor: `y${end}`, nticks: 3, showticklabels: i >= lines.length - columns, ...(i && { matches: "x" }) };
    axes[`yaxis${end}`] = { ...number, domain: y, anchor: `x${end}`, nticks: 3, showticklabels: first, ...(i && { matches: "y" }) };
    annotations.push({
      text: line.name.replaceAll("<", "&lt;"), showarrow: false, xref: "paper", yref: "paper", x: x[0], y: y[1], xanchor: "left", yanchor: "bottom",
      font: { size: 12, color: ofGroup(colours, line.index) },
    });
  });
  return axes;
}

const domain = (i, of, gap) => {
  const size = (1 - gap * (of - 1)) / of;
  return [i * (size + gap), Math.min(1, i * (size + gap) + size)];
};
