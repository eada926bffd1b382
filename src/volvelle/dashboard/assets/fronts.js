// Pareto fronts of searches (volvelle tune): their points, one of which an operator uses.

import { get, put } from "./api.js";
import { duration, h, moment, number, svg } from "./dom.js";
import { say, sayError } from "./dialogs.js";
import { putInPlace } from "./whatif.js";

const HEIGHT = 300, LEFT = 72, BOTTOM = 44, TOP = 22, RIGHT = 12, DOT = 7;

const written = (objective, value) => (value === null ? "–" : objective.unit === "s" ? duration(value) : `${number(Number(value.toPrecision(3)))} ${objective.unit}`);

// Fronts that the server keeps; and files of this machine, which are sent only where an operator has them kept.
export function fronts(cluster) {
  const file = h("input", { type: "file", accept: ".json" }), shown = h("div");
  const kept = h("select", {}, h("option", { value: "" }, "…"));
  const name = h("input", { type: "text", size: 16, required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]*", title: "letters, digits, - and _" });
  const keep = h("form", { class: "controls", hidden: true }, h("label", { class: "field" }, "Name", name), h("button", { type: "submit" }, "Keep on the server"));
  const found = new Map();
  let read = null;
  const open = (front) => { shown.replaceChildren(...show(figures(front), cluster, shown.clientWidth)); };
  const list = async () => {
    const listed = await get("/v1/fronts");
    found.clear();
    for (const each of listed.fronts) found.set(each.name, each);
    const options = listed.fronts.map((each) => h("option", { value: each.name }, `${each.name}, ${moment(each.made)}`));
    kept.replaceChildren(h("option", { value: "" }, options.length ? "choose one" : "none yet"), ...options);
    if (!options.length) shown.replaceChildren(note("None is kept yet: volvelle tune --live searches for policies with the jobs of this server, and writes front.json."));
    if (listed.problems.length) sayError(new Error(listed.problems.join("; ")));
  };
  kept.addEventListener("change", () => {
    keep.hidden = true;
    if (found.has(kept.value)) open(found.get(kept.value).front);
  });
  file.addEventListener("change", async () => {
    const chosen = file.files[0];
    try {
      const { objectives, points } = JSON.parse(await chosen.text());
      open({ objectives, points });
      read = { objectives, points: points.map(told) };
      name.value = chosen.name.replace(/\.json$/, "").replace(/[^A-Za-z0-9]+/g, "-");
      keep.hidden = false;
    } catch {
      sayError(new Error(`${chosen.name} is not a front; give the front.json that volvelle tune wrote`));
    }
  });
  keep.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await put(`/v1/fronts/${encodeURIComponent(name.value)}`, read);
      await list();
      kept.value = name.value;
      keep.hidden = true;
      say(`The server keeps ${name.value}.`);
    } catch (error) {
      sayError(error);
    }
  });
  list().catch(sayError);
  return h("section", { class: "card whole" }, h("h2", {}, "Found by volvelle tune"),
    h("div", { class: "controls" }, h("label", { class: "field" }, "Kept by the server", kept), h("label", { class: "field" }, "or front.json, as volvelle tune wrote it", file)), keep, shown);
}

const note = (text) => h("p", { class: "note" }, text);

// Of a point what the server keeps.
const told = ({ written: policy, names, in_words: words, train }) => ({
  written: policy, names, in_words: words,
  train: Object.fromEntries(Object.entries(train).map(([name, { mean }]) => [name, { mean }])),
});

const figures = ({ objectives, points }) => ({
  objectives,
  points: points.map((point) => ({ written: point.written, names: point.names, words: point.in_words, values: objectives.map((each) => point.train[each.name]?.mean ?? null) })),
});

function show({ objectives, points }, cluster, width) {
  const rows = points.map((point, number) => h("tr", {},
    h("th", { scope: "row" }, point.names.join(", ") || h("span", { class: "quiet" }, `point ${number}`)),
    objectives.map((objective, at) => h("td", { class: "number", "data-title": objective.name }, written(objective, point.values[at]))),
    h("td", { class: "words" }, point.words),
    h("td", {}, h("button", { type: "button", onclick: () => putInPlace({ policy: point.written, admission: cluster.admission }) }, "Use it"))));
  const heads = ["Point", ...objectives.map((each) => each.name), "What it gains", "Choose"];
  const table = h("div", { class: "table offers", tabIndex: 0, role: "region", "aria-label": "Points of the front" }, h("table", {},
    h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
  const drawn = points.filter(({ values }) => values[0] !== null && values[1] !== null);
  const meaning = note("Each point is best for some weight of the objectives: no other is better in all of them. Figures are means over the samples of the search.");
  return [...(objectives.length < 2 || !drawn.length ? [] : [scatter(objectives, drawn, width)]), table, meaning];
}

// The first two objectives.
function scatter(objectives, points, width) {
  const spans = [0, 1].map((axis) => {
    const values = points.map((point) => point.values[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const share = (axis, value) => (spans[axis][1] > spans[axis][0] ? (value - spans[axis][0]) / (spans[axis][1] - spans[axis][0]) : 0.5);
  const x = (value) => LEFT + 20 + share(0, value) * (width - LEFT - RIGHT - 40);
  const y = (value) => HEIGHT - BOTTOM - 20 - share(1, value) * (HEIGHT - BOTTOM - TOP - 40);
  const label = `${objectives[0].name} against ${objectives[1].name}`;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart load", role: "img", "aria-label": label });
  const text = (content, attributes) => svg("text", attributes, content);
  chart.append(text(objectives[0].name, { x: (LEFT + width) / 2, y: HEIGHT - 6, class: "middle" }), text(objectives[1].name, { x: 0, y: 12 }));
  for (const part of [0, 0.5, 1]) { // the ends are named
    const [across, up] = spans.map(([low, high]) => low + part * (high - low));
    chart.append(svg("path", { d: `M${x(across)} ${TOP}V${HEIGHT - BOTTOM}M${LEFT} ${y(up)}H${width - RIGHT}`, class: "grid" }));
  }
  for (const end of [0, 1]) {
    chart.append(text(written(objectives[0], spans[0][end]), { x: x(spans[0][end]), y: HEIGHT - 24, class: "middle" }),
      text(written(objectives[1], spans[1][end]), { x: LEFT - 4, y: y(spans[1][end]) + 4, class: "end" }));
  }
  for (const { names, words, values } of points) {
    const dot = svg("circle", { cx: x(values[0]), cy: y(values[1]), r: names.length ? DOT : 5, class: names.length ? "pick" : "point" });
    dot.addEventListener("pointermove", (event) => showTip([names.join(", "), words].filter(Boolean).join("\n"), event));
    dot.addEventListener("pointerleave", hideTip);
    chart.append(dot);
  }
  for (const { names, values: [across, up] } of points) { // above its dot, from the side that is nearer to the edge
    const right = x(across) > (LEFT + width) / 2;
    if (names.length) chart.append(text(names.join(", "), { x: x(across) + (right ? DOT : -DOT), y: y(up) - DOT - 5, class: right ? "end strong" : "strong" }));
  }
  return h("figure", { tabIndex: 0, "aria-label": label }, chart);
}
