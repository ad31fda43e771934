// One measure of a release over time: a line with a 95 % band for each group, in one panel or several.

import { cell } from "./cells.js";
import { cut, escaped } from "./labels.js";
import { plain } from "./numbers.js";
import { dashOf, faded, ofGroup, palette } from "./palette.js";
import { ofNumbers, ofTime } from "./spans.js";
import { pointedFormat } from "./times.js";

const SETTINGS = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: "reset" };
const FONT = '"Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
const GAP = 0.06; // between columns
const TITLE = 30; // pixels above a panel
const HOVERED = 40; // letters of a name

/** Return whether the chart script is loaded. */
export const canDraw = () => Boolean(window.Plotly);

/** view: {lines: [{name, index, column, truth}], apart, columns, width, height, zoomed, tick}. */
export function draw(node, view) {
  const colours = palette();
  const touch = matchMedia("(pointer: coarse)").matches;
  const traces = view.lines.flatMap((line, i) => tracesOf(line, view.apart ? i + 1 : 1, colours));
  return window.Plotly.react(node, traces, layout(view, colours, touch), SETTINGS);
}

export const forget = (node) => window.Plotly?.purge(node);

function tracesOf({ name, index, column, truth }, panel, colours) {
  const colour = ofGroup(colours, index);
  const axes = { xaxis: `x${panel > 1 ? panel : ""}`, yaxis: `y${panel > 1 ? panel : ""}` };
  const still = { ...axes, x: column.time, type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false };
  const alone = column.time.length === 1;
  const hasBand = column.high.some((high) => high !== null);
  const band = hasBand ? bandOf(column, still, faded(colour, 0.17)) : [];
  const label = escaped(cut(name, HOVERED * 6.4));
  const line = {
    ...axes, x: column.time, y: column.value, name: label, type: "scatter", mode: alone ? "markers" : "lines",
    line: { color: colour, width: 2, dash: dashOf(index) }, marker: { color: colour, size: 7 },
    text: column.value.map((_, i) => cell(column, i)), hovertemplate: "%{text}", hoverlabel: { namelength: -1 },
    ...(alone && hasBand && { error_y: bar(column, colour) }),
  };
  const real = truth
    ? [{ ...still, y: truth, name: `${label}, the truth`, mode: alone ? "markers" : "lines", hoverinfo: "all", line: { color: colours.ink, width: 1.4, dash: "dash" },
      marker: { color: colours.ink, symbol: "line-ew-open", size: 12 }, text: truth.map((value) => plain(value)), hovertemplate: "%{text}", hoverlabel: { namelength: -1 } }]
    : [];
  return [...band, line, ...real];
}

/** Interval of a single tick. */
/** Ranges with known bounds; the band has gaps elsewhere. */
export function bandOf(column, still, fillcolor) {
  const known = column.high.map((high, i) => high !== null && column.low[i] !== null);
  if (known.every((is) => is)) {
    return [{ ...still, y: column.low, line: { width: 0 } }, { ...still, y: column.high, line: { width: 0 }, fill: "tonexty", fillcolor }];
  }
  const [x, y] = [[], []];
  for (let begin = known.indexOf(true); begin >= 0; begin = known.indexOf(true, begin)) {
    const gap = known.indexOf(false, begin), end = gap < 0 ? known.length : gap;
    const [time, low, high] = [column.time, column.low, column.high].map((all) => all.slice(begin, end));
    x.push(...time, ...time.toReversed(), null);
    y.push(...low, ...high.toReversed(), null);
    begin = end;
  }
  return [{ ...still, x, y, line: { width: 3, color: fillcolor }, fill: "toself", fillcolor }];
}

const bar = ({ value, low, high }, color) => ({
  type: "data", symmetric: false, array: [high[0] - value[0]], arrayminus: [value[0] - low[0]], color, thickness: 1.6, width: 7,
});

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
  const time = {
    ...axis, type: "date", showgrid: false, nticks: view.width < 480 ? 3 : 6, tickangle: 0, showspikes: false, hoverformat: pointedFormat(view.tick),
    range: ofTime(view.lines, view.tick), title: { text: "UTC", font: { size: 11, color: colours.faint } },
  };
  const number = { ...axis, nticks: 5, separatethousands: true, range: ofNumbers(view.lines) };
  if (!view.apart) return { ...base, xaxis: time, yaxis: number };
  return { ...base, ...panels(view, colours, time, number, base.annotations) };
}

/** A grid of panels with the same axes. */
function panels({ lines, columns, height, width }, colours, time, number, annotations) {
  const rows = Math.ceil(lines.length / columns);
  const axes = {};
  lines.forEach((line, i) => {
    const end = i ? i + 1 : "";
    const x = domain(i % columns, columns, GAP);
    const y = domain(rows - 1 - Math.floor(i / columns), rows, TITLE / height);
    const [first, lowest] = [i % columns === 0, i >= lines.length - columns];
    axes[`xaxis${end}`] = { ...time, domain: x, anchor: `y${end}`, nticks: 3, showticklabels: lowest, ...(!lowest && { title: undefined }), ...(i && { matches: "x" }) };
    axes[`yaxis${end}`] = { ...number, domain: y, anchor: `x${end}`, nticks: 3, showticklabels: first, ...(i && { matches: "y" }) };
    annotations.push({
      text: escaped(cut(line.name, (width - 50) * (x[1] - x[0]))), showarrow: false, xref: "paper", yref: "paper", x: x[0], y: y[1], xanchor: "left", yanchor: "bottom",
      font: { size: 12, color: ofGroup(colours, line.index) },
    });
  });
  return axes;
}

const domain = (i, of, gap) => {
  const size = (1 - gap * (of - 1)) / of;
  return [i * (size + gap), Math.min(1, i * (size + gap) + size)];
};
