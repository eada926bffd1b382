// The Pareto front of a search (volvelle tune): its points, one of which an operator puts in place.

import { duration, h, number, svg } from "./dom.js";
import { sayError } from "./dialogs.js";
import { putInPlace } from "./whatif.js";

const WIDTH = 720, HEIGHT = 320, LEFT = 84, BOTTOM = 44, TOP = 16, RIGHT = 24;

const written = (objective, value) => (objective.unit === "s" ? duration(value) : `${number(Number(value.toPrecision(3)))} ${objective.unit}`);

// The file is read by this page and not sent: the server gets the parameters of the point that is chosen.
export function front(root, { cluster }) {
  const file = h("input", { type: "file", accept: ".json" }), shown = h("div");
  file.addEventListener("change", async () => {
    try {
      shown.replaceChildren(...show(readFront(await file.files[0].text()), cluster));
    } catch {
      sayError(new Error(`${file.files[0].name} is not a front; give the front.json that volvelle tune wrote`));
    }
  });
  root.append(h("h1", {}, "Front"),
    h("div", { class: "controls" }, h("label", { class: "field" }, "front.json, as volvelle tune wrote it", file)), shown,
    h("p", { class: "note" }, "Each point is best for some weight of the objectives: no other is better in all of them. Figures are means over the samples of the search."));
  return { update: () => {} };
}

function readFront(text) {
  const { objectives, points } = JSON.parse(text);
  return {
    objectives,
    points: points.map((point) => ({ written: point.written, names: point.names, words: point.in_words, values: objectives.map((each) => point.train[each.name].mean) })),
  };
}

function show({ objectives, points }, cluster) {
  const rows = points.map((point) => h("tr", {},
    h("th", { scope: "row" }, point.names.join(", ") || "–"),
    objectives.map((objective, at) => h("td", { class: "number" }, written(objective, point.values[at]))),
    h("td", { class: "words" }, point.words),
    h("td", {}, h("button", { type: "button", onclick: () => putInPlace({ policy: point.written, admission: cluster.admission }) }, "Put in place"))));
  const heads = ["Point", ...objectives.map((each) => each.name), "What it gains", "Choose"];
  const table = h("div", { class: "table", tabIndex: 0, role: "region", "aria-label": "Points of the front" }, h("table", {},
    h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
  return objectives.length < 2 ? [table] : [scatter(objectives, points), table];
}

// The first two objectives.
function scatter(objectives, points) {
  const spans = [0, 1].map((axis) => {
    const values = points.map((point) => point.values[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const share = (axis, value) => (spans[axis][1] > spans[axis][0] ? (value - spans[axis][0]) / (spans[axis][1] - spans[axis][0]) : 0.5);
  const x = (value) => LEFT + 20 + share(0, value) * (WIDTH - LEFT - RIGHT - 40);
  const y = (value) => HEIGHT - BOTTOM - 20 - share(1, value) * (HEIGHT - BOTTOM - TOP - 40);
  const label = `${objectives[0].name} against ${objectives[1].name}`;
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label });
  const text = (content, attributes) => svg("text", attributes, content);
  chart.append(text(objectives[0].name, { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, class: "middle" }), text(objectives[1].name, { x: LEFT, y: 12 }));
  for (const end of [0, 1]) {
    chart.append(text(written(objectives[0], spans[0][end]), { x: x(spans[0][end]), y: HEIGHT - 24, class: "middle" }),
      text(written(objectives[1], spans[1][end]), { x: LEFT - 4, y: y(spans[1][end]) + 4, class: "end" }));
  }
  for (const { names, words, values } of points) {
    const dot = svg("circle", { cx: x(values[0]), cy: y(values[1]), r: names.length ? 7 : 5, class: names.length ? "pick" : "point" });
    dot.addEventListener("pointermove", (event) => showTip([names.join(", "), words].filter(Boolean).join("\n"), event));
    dot.addEventListener("pointerleave", hideTip);
    chart.append(dot);
    if (names.length) chart.append(text(names.join(", "), { x: x(values[0]) + 10, y: y(values[1]) - 8, class: x(values[0]) > WIDTH * 0.7 ? "end" : "" }));
  }
  return h("figure", { tabIndex: 0, "aria-label": label }, chart);
}
