// The history of a job's forecast: the finish that was forecast (up) at the time it was made (across).

import { h, moment, svg, tickLabel, ticks } from "./dom.js";

const HEIGHT = 280, LEFT = 64, BOTTOM = 28, TOP = 14, RIGHT = 118;

// points: {time, start, p50, p90}; lines: [style, name, moment] of what was told and is guaranteed.
export function forecastChart(points, lines, width, time) {
  const told = lines.filter(([, , at]) => at);
  const finishes = points.flatMap((point) => [point.start, point.p50, point.p90]).filter((each) => each);
  if (!finishes.length) return [h("p", { class: "note" }, "Nothing was forecast yet.")];
  const first = points[0].time, last = Math.max(time, points.at(-1).time, first + 60), right = width - RIGHT;
  const all = finishes.concat(told.map(([, , at]) => at)), room = Math.max(30, (Math.max(...all) - Math.min(...all)) / 12);
  const low = Math.min(...all) - room, high = Math.max(...all) + room;
  const x = (at) => LEFT + (at - first) / (last - first) * (right - LEFT);
  const y = (at) => HEIGHT - BOTTOM - (at - low) / (high - low) * (HEIGHT - BOTTOM - TOP);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart load", role: "img", "aria-label": spoken(points.at(-1), told) });
  const path = (d, style) => chart.append(svg("path", { d, class: style }));
  const text = (content, at, up, style) => chart.append(svg("text", { x: at, y: up, class: style }, content));
  for (const at of ticks(low, high, 6)) {
    path(`M${LEFT} ${y(at)}H${right}`, "grid");
    text(tickLabel(at), LEFT - 8, y(at) + 4, "end");
  }
  for (const at of ticks(first, last, (right - LEFT) / 90)) {
    path(`M${x(at)} ${TOP}V${HEIGHT - BOTTOM}`, "grid");
    text(tickLabel(at), x(at), HEIGHT - 8, "middle");
  }
  const steps = (key) => points.map((point, at) => [x(point.time), x(points[at + 1]?.time ?? last), point[key]]).filter(([, , value]) => value);
  const line = (key) => steps(key).map(([from, to, value], at) => `${at ? "L" : "M"}${from.toFixed(1)} ${y(value).toFixed(1)}H${to.toFixed(1)}`).join("");
  for (const [at, point] of points.entries()) {
    if (!point.p50 || !point.p90) continue;
    const from = x(point.time), to = x(points[at + 1]?.time ?? last);
    path(`M${from} ${y(point.p50)}H${to}V${y(point.p90)}H${from}Z`, "band");
  }
  path(line("start"), "starts");
  path(line("p50"), "was");
  for (const [style, , at] of told) path(`M${LEFT} ${y(at)}H${right}`, `line ${style}`);
  label(points.at(-1), told, y, (up, content, style) => text(content, right + 8, up, style));
  return [chart];
}

// Names at the right end, none over another.
function label(latest, told, y, write) {
  const found = [["P50", latest.p50, "strong"], ["P90", latest.p90, ""], ["start", latest.start, ""], ...told.map(([, name, at]) => [name, at, ""])].filter(([, at]) => at);
  let free = -Infinity;
  for (const [name, at, style] of found.sort((a, b) => y(a[1]) - y(b[1]))) {
    free = Math.max(free + 14, y(at) + 4);
    write(free, `${name} ${moment(at)}`, style);
  }
}

const spoken = (latest, told) => `How the forecast went; the latest: finish P50 ${moment(latest.p50)}, P90 ${moment(latest.p90)}${told.map(([, name, at]) => `, ${name} ${moment(at)}`).join("")}.`;
