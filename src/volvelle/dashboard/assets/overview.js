// The cluster at a glance.

import { gpusByType } from "./cluster.js";
import { h, moment, number, svg } from "./dom.js";
import { finishText, queueLink, startOf } from "./queue.js";

const PARTS = [["held", "held"], ["free", "free"], ["fragmented", "fragmented"], ["out", "out of use"]];
const STATES = ["running", "starting", "stopping", "waiting", "held"];

export function overview(root, { cluster }) {
  const tiles = h("ul", { class: "tiles" }), types = h("div"), soon = h("div", { class: "pair" });
  root.append(h("h1", {}, "Overview"), tiles, h("h2", {}, "GPUs by type"), types,
    h("p", { class: "note" }, "Fragmented: free GPUs of nodes on which jobs hold others; a job that wants a whole node cannot use them."),
    soon);
  const draw = () => {
    const byType = gpusByType(cluster.nodes.values()), states = new Map();
    for (const job of cluster.jobs.values()) states.set(job.state, (states.get(job.state) ?? 0) + 1);
    const sum = (part) => byType.reduce((total, type) => total + type[part], 0);
    const figures = [
      [`${number(sum("held"))} of ${number(sum("gpus"))}`, "GPUs held"],
      [number(sum("free") + sum("fragmented")), "GPUs free"],
      ...STATES.filter((state) => states.get(state)).map((state) => [number(states.get(state)), `jobs ${state}`, { state }]),
      [cluster.policy, cluster.admission === "accept-all" ? "policy" : `policy, ${cluster.admission}`],
    ];
    tiles.replaceChildren(...figures.map(([value, name, filter]) =>
      h("li", {}, h("b", {}, value), filter ? h("a", { href: queueLink(filter) }, name) : h("span", {}, name))));
    types.replaceChildren(typeTable(byType));
    soon.replaceChildren(...soonest(cluster));
  };
  draw();
  return { update: draw };
}

function typeTable(types) {
  const rows = types.map((type) => h("tr", {}, h("th", { scope: "row" }, type.type || "GPU"),
    h("td", { class: "number" }, number(type.nodes)), h("td", { class: "number" }, number(type.gpus)),
    PARTS.map(([part]) => h("td", { class: "number" }, number(type[part]))), h("td", {}, bar(type))));
  const names = ["Type", "Nodes", "GPUs", ...PARTS.map(([, name]) => name[0].toUpperCase() + name.slice(1)), "Share"];
  const heads = names.map((name, at) => h("th", { scope: "col", class: at && at < 7 ? "number" : "" }, name));
  return h("div", { class: "table", tabIndex: 0, role: "region", "aria-label": "GPUs by type" },
    h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)));
}

function bar(type) {
  const picture = svg("svg", { viewBox: "0 0 200 14", class: "bar", role: "img",
    "aria-label": PARTS.map(([part, name]) => `${type[part]} ${name}`).join(", ") });
  let at = 0;
  for (const [part] of PARTS) {
    const width = 200 * type[part] / Math.max(1, type.gpus);
    picture.append(svg("rect", { x: at, y: 0, width, height: 14, class: part }));
    at += width;
  }
  return picture;
}

function soonest(cluster) {
  const jobs = [...cluster.jobs.values()];
  const first = (rows, time) => {
    const found = rows.filter((job) => time(job)); // ten of many: no need to sort them all
    const best = [];
    for (const job of found) {
      if (best.length === 10 && time(job) >= time(best[9])) continue;
      best.push(job);
      best.sort((a, b) => time(a) - time(b)).splice(10);
    }
    return best;
  };
  const list = (title, rows, text) => h("section", {}, h("h2", {}, title), rows.length
    ? h("ul", { class: "jobs" }, rows.map((job) => h("li", {}, h("a", { href: `#/job/${job.number}` }, `${job.number} ${job.name}`), ` ${text(job)}`)))
    : h("p", { class: "note" }, "None."));
  const late = jobs.filter((job) => job.guaranteed && job.predicted_p90 > job.guaranteed);
  return [
    list("Starting next", first(jobs.filter((job) => job.state === "waiting"), (job) => job.predicted_start), (job) => `${startOf(job)}, ${number(job.gpus)} GPUs`),
    list("Finishing next", first(jobs.filter((job) => job.started), (job) => job.predicted_p50), (job) => finishText(job)),
    list("Guarantees at risk", first(late, (job) => job.guaranteed), (job) => `by ${moment(job.guaranteed)}, P90 ${moment(job.predicted_p90)}`),
  ];
}
