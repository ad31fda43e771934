// One measure of a release by time: a line with a 95 % band for each group, in one panel or several.

import { formatAmount, formatCell } from "./cells.js";
import { escapeMarkup, LETTER_PIXELS, truncate } from "./labels.js";
import { formatNumber } from "./numbers.js";
import { lineDash, withOpacity, groupColour, palette } from "./palette.js";
import { valueRange, timeRange } from "./spans.js";
import { hoverTimeFormat } from "./times.js";

const SETTINGS = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: "reset" };
const FONT = '"Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
const COLUMN_GAP = 0.06; // gap between panels, as a share of the width
const TITLE_PIXELS = 30; // space above a panel for its name
const MAX_NAME_LETTERS = 40; // letters in the hover text

/** Return whether the chart script is loaded. */
export const canDraw = () => Boolean(window.Plotly);

/** view: {lines: [{name, index, column, truth}], apart, columns, width, height, zoomed, tick}. */
export function draw(node, view) {
  const colours = palette();
  const touch = matchMedia("(pointer: coarse)").matches;
  const traces = view.lines.flatMap((line, i) => buildTraces(line, view.apart ? i + 1 : 1, colours));
  return window.Plotly.react(node, traces, buildLayout(view, colours, touch), SETTINGS);
}

export const clearChart = (node) => window.Plotly?.purge(node);

/** Draw the groups of one tick as bars, the largest at the top. view: {bars: [{rank, name, column, truth}], width, height}. */
export function drawBars(node, view) {
  const colours = palette();
  const bars = view.bars.toReversed();
  const ends = (side) => bars.map(({ column }) => (column.high[0] === null || column.low[0] === null ? 0 : side(column)));
  const name = (bar) => `${bar.rank}. ${escapeMarkup(truncate(bar.name, Math.min(MAX_NAME_LETTERS * 6.4, view.width * 0.34)))}`;
  const colour = groupColour(colours, 0);
  const common = { y: bars.map(name), orientation: "h", hoverlabel: { namelength: -1 } };
  const shown = {
    ...common, type: "bar", x: bars.map(({ column }) => column.value[0]), marker: { color: withOpacity(colour, 0.62) }, name: "",
    error_x: { type: "data", symmetric: false, array: ends(({ value, high }) => high[0] - value[0]), arrayminus: ends(({ value, low }) => value[0] - low[0]), color: colours.ink, thickness: 1.3, width: 4 },
    text: bars.map(({ column }) => formatCell(column, 0)), textposition: "none", hovertemplate: "%{text}<extra></extra>",
  };
  const truth = bars.some((bar) => bar.truth) && {
    ...common, type: "scatter", mode: "markers", x: bars.map((bar) => bar.truth?.[0] ?? null), name: "truth",
    marker: { color: colours.ink, symbol: "diamond-open", size: 9, line: { width: 1.6 } }, text: bars.map((bar) => formatNumber(bar.truth?.[0] ?? null)), hovertemplate: "%{text}, truth<extra></extra>",
  };
  const axis = { gridcolor: colours.rule, zerolinecolor: colours.faint, linecolor: colours.rule, tickfont: { size: 11, color: colours.faint }, automargin: true, fixedrange: true };
  const amounts = bars.map(({ column }, i) => ({
    text: formatAmount(column, 0), x: Math.max(column.value[0], column.high[0] ?? column.value[0], 0), y: common.y[i], xanchor: "left", xshift: 5, showarrow: false, font: { size: 11, color: colours.faint },
  }));
  const layout = {
    annotations: amounts, width: view.width, height: view.height, margin: { l: 8, r: 14, t: 4, b: 8 }, showlegend: false, hovermode: "y", bargap: 0.35,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: FONT, size: 12, color: colours.ink }, dragmode: false,
    hoverlabel: { bgcolor: colours.paper, bordercolor: colours.rule, font: { color: colours.ink, family: FONT, size: 12 } },
    xaxis: { ...axis, nticks: view.width < 480 ? 4 : 7, separatethousands: true, range: barRange(bars, amounts, view.width) },
    yaxis: { ...axis, type: "category", showgrid: false, tickfont: { size: 12, color: colours.ink }, dtick: 1 },
  };
  return window.Plotly.react(node, truth ? [shown, truth] : [shown], layout, SETTINGS);
}

/** Return the range of the bars, with space for the amount beside the longest one. */
function barRange(bars, amounts, width) {
  const low = Math.min(0, ...bars.map(({ column }) => column.low[0] ?? column.value[0]));
  const high = Math.max(...amounts.map(({ x }) => x), low + 1);
  const share = Math.min(0.45, (Math.max(...amounts.map(({ text }) => text.length)) * LETTER_PIXELS + 14) / (0.8 * width));
  return [low, low + (high - low) / (1 - share)];
}

function buildTraces({ name, index, column, truth }, panel, colours) {
  const colour = groupColour(colours, index);
  const axes = { xaxis: `x${panel > 1 ? panel : ""}`, yaxis: `y${panel > 1 ? panel : ""}` };
  const common = { ...axes, x: column.time, type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false };
  const single = column.time.length === 1;
  const hasBand = column.high.some((high) => high !== null);
  const band = hasBand ? buildBand(column, common, withOpacity(colour, 0.17)) : [];
  const label = escapeMarkup(truncate(name, MAX_NAME_LETTERS * 6.4));
  const line = {
    ...axes, x: column.time, y: column.value, name: label, type: "scatter", mode: single ? "markers" : "lines",
    line: { color: colour, width: 2, dash: lineDash(index) }, marker: { color: colour, size: 7 },
    text: column.value.map((_, i) => formatCell(column, i)), hovertemplate: "%{text}", hoverlabel: { namelength: -1 },
    ...(single && hasBand && { error_y: buildErrorBar(column, colour) }),
  };
  const truthTraces = truth
    ? [{ ...common, y: truth, name: `${label}, truth`, mode: single ? "markers" : "lines", hoverinfo: "all", line: { color: colours.ink, width: 1.4, dash: "dash" },
      marker: { color: colours.ink, symbol: "line-ew-open", size: 12 }, text: truth.map((value) => formatNumber(value)), hovertemplate: "%{text}", hoverlabel: { namelength: -1 } }]
    : [];
  return [...band, line, ...truthTraces];
}

/** Return the traces of a band, with gaps at ticks without bounds. */
export function buildBand(column, common, fillcolor) {
  const known = column.high.map((high, i) => high !== null && column.low[i] !== null);
  if (known.every(Boolean)) {
    return [{ ...common, y: column.low, line: { width: 0 } }, { ...common, y: column.high, line: { width: 0 }, fill: "tonexty", fillcolor }];
  }
  const [x, y] = [[], []];
  for (let start = known.indexOf(true); start >= 0; start = known.indexOf(true, start)) {
    const gap = known.indexOf(false, start), end = gap < 0 ? known.length : gap;
    const [time, low, high] = [column.time, column.low, column.high].map((all) => all.slice(start, end));
    x.push(...time, ...time.toReversed(), null);
    y.push(...low, ...high.toReversed(), null);
    start = end;
  }
  return [{ ...common, x, y, line: { width: 3, color: fillcolor }, fill: "toself", fillcolor }];
}

/** Error bar of a single tick. */
const buildErrorBar = ({ value, low, high }, color) => ({
  type: "data", symmetric: false, array: [high[0] - value[0]], arrayminus: [value[0] - low[0]], color, thickness: 1.6, width: 7,
});

function buildLayout(view, colours, touch) {
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
    ...axis, type: "date", showgrid: false, nticks: view.width < 480 ? 3 : 6, tickangle: 0, showspikes: false, hoverformat: hoverTimeFormat(view.tick),
    range: timeRange(view.lines, view.tick), title: { text: "UTC", font: { size: 11, color: colours.faint } },
  };
  const number = { ...axis, nticks: 5, separatethousands: true, range: valueRange(view.lines) };
  if (!view.apart) return { ...base, xaxis: time, yaxis: number };
  return { ...base, ...buildPanels(view, colours, time, number, base.annotations) };
}

/** A grid of panels with the same axes. */
function buildPanels({ lines, columns, height, width }, colours, time, number, annotations) {
  const rows = Math.ceil(lines.length / columns);
  const axes = {};
  lines.forEach((line, i) => {
    const end = i ? i + 1 : "";
    const x = domain(i % columns, columns, COLUMN_GAP);
    const y = domain(rows - 1 - Math.floor(i / columns), rows, TITLE_PIXELS / height);
    const [first, lowest] = [i % columns === 0, i >= lines.length - columns];
    axes[`xaxis${end}`] = { ...time, domain: x, anchor: `y${end}`, nticks: 3, showticklabels: lowest, ...(!lowest && { title: undefined }), ...(i && { matches: "x" }) };
    axes[`yaxis${end}`] = { ...number, domain: y, anchor: `x${end}`, nticks: 3, showticklabels: first, ...(i && { matches: "y" }) };
    annotations.push({
      text: escapeMarkup(truncate(line.name, (width - 50) * (x[1] - x[0]))), showarrow: false, xref: "paper", yref: "paper", x: x[0], y: y[1], xanchor: "left", yanchor: "bottom",
      font: { size: 12, color: groupColour(colours, line.index) },
    });
  });
  return axes;
}

const domain = (i, count, gap) => {
  const size = (1 - gap * (count - 1)) / count;
  return [i * (size + gap), Math.min(1, i * (size + gap) + size)];
};
