// The history of a job's forecast as lines over time.

import { h, moment, svg } from "./dom.js";

const WIDTH = 720, HEIGHT = 260, LEFT = 84, BOTTOM = 34, TOP = 12, RIGHT = 12;

// points: {time, start, p50, p90}; promised: the finish that was told at submission.
export function forecastChart(points, promised) {
  const finishes = points.flatMap((point) => [point.start, point.p50, point.p90]).concat(promised).filter((each) => each);
  if (!finishes.length) return h("p", { class: "note" }, "Nothing was forecast yet.");
  const first = points[0].time, last = Math.max(points.at(-1).time, first + 1);
  const low = Math.min(...finishes), high = Math.max(...finishes, low + 60);
  const x = (time) => LEFT + (time - first) / (last - first) * (WIDTH - LEFT - RIGHT);
  const y = (time) => HEIGHT - BOTTOM - (time - low) / (high - low) * (HEIGHT - BOTTOM - TOP);
  const steps = (key, end) => points.filter((point) => point[key]).map((point, at, all) => {
    const until = at + 1 < all.length ? all[at + 1].time : end;
    return `${at ? "L" : "M"}${x(point.time).toFixed(1)} ${y(point[key]).toFixed(1)}H${x(until).toFixed(1)}`;
  }).join("");
  const line = (key, style) => svg("path", { d: steps(key, last), class: `line ${style}` });
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": "History of the forecast" });
  for (let at = 0; at <= 4; at++) {
    const time = low + (high - low) * at / 4;
    chart.append(svg("path", { d: `M${LEFT} ${y(time)}H${WIDTH - RIGHT}`, class: "grid" }),
      svg("text", { x: LEFT - 8, y: y(time) + 4, class: "end" }, moment(time)));
  }
  for (let at = 0; at <= 3; at++) {
    const time = first + (last - first) * at / 3;
    chart.append(svg("text", { x: x(time), y: HEIGHT - 12, class: at === 0 ? "" : at === 3 ? "end" : "middle" }, moment(time)));
  }
  if (promised) chart.append(svg("path", { d: `M${LEFT} ${y(promised)}H${WIDTH - RIGHT}`, class: "line promised" }));
  chart.append(line("start", "start"), line("p90", "p90"), line("p50", "p50"));
  const names = [["p50", "finish P50"], ["p90", "finish P90"], ["start", "start"], ...(promised ? [["promised", "finish told at submission"]] : [])];
  const legend = h("ul", { class: "legend" }, names.map(([style, name]) => h("li", {}, h("i", { class: style }), name)));
  return h("figure", { tabIndex: 0, "aria-label": "Forecast over time" }, chart, legend); // it scrolls on a phone
}
