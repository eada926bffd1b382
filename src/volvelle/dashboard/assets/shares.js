// Fair share: what users and pools hold, wait for, and used, now and in the last day.

import { get, named } from "./api.js";
import { h, number, svg, top } from "./dom.js";
import { sayError } from "./dialogs.js";
import { SERIES, colorsOf } from "./gpus.js";
import { gpusOf, loadChart } from "./load.js";
import { queueLink } from "./queue.js";
import { Table } from "./table.js";

const CHART_HEIGHT = 400;

const hours = (seconds) => (seconds === null ? null : seconds / 3600);

// GPUs that are held, in a bar as long as `most`, with a mark at a fair share, if there is one: what is beyond it is borrowed.
export function shareBar(held, fair, most) {
  const rect = (x, width, style) => svg("rect", { x, width: Math.max(0, width), height: 14, class: style }), at = (gpus) => 200 * gpus / Math.max(1, most);
  return svg("svg", { viewBox: "0 0 200 14", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" },
    rect(0, 200, "track"), rect(0, at(Math.min(held, fair ?? held)), "held"),
    ...(fair === null ? [] : [rect(at(fair), at(held - fair), "borrowed"), rect(Math.min(198, at(fair) - 1), 2, "mark")]));
}

// Series of users: of those who hold GPUs as elsewhere, and of those who held most of `spans`, as far as there are any left.
function seriesOf(jobs, spans) {
  const colors = colorsOf(jobs), left = SERIES.filter((series) => ![...colors.values()].includes(series)), sums = new Map();
  for (const span of spans) sums.set(span.user, (sums.get(span.user) ?? 0) + (span.end - span.start) * gpusOf(span));
  const most = [...sums.keys()].filter((user) => user && !colors.has(user)).sort((a, b) => sums.get(b) - sums.get(a));
  for (const user of most.slice(0, left.length)) colors.set(user, left.shift());
  return colors;
}

export function shares(root, { cluster, session, go }) {
  const users = new Table({
    name: "users", label: "Users", empty: () => "Nobody has a job here.", key: (row) => row.user, sort: "-held", open: (row) => go(queueLink({ user: row.user })),
    columns: [
      { name: "user", title: "User", value: (row) => row.user, link: (row) => queueLink({ user: row.user }) },
      { name: "held", title: "GPUs held", value: (row) => row.held_gpus, text: (row) => number(row.held_gpus), number: true },
      { name: "bar", line: true, plain: true, title: "Of all GPUs", text: (row) => `${row.held_gpus} ${row.fair} ${row.all}`, draw: (row) => shareBar(row.held_gpus, row.fair, row.all) },
      { name: "fair", title: "Even share", value: (row) => row.fair, text: (row) => (row.fair === null ? "" : number(Math.round(10 * row.fair) / 10)), number: true, optional: true },
      { name: "share", title: "Of all held", value: (row) => row.share, text: (row) => `${(100 * row.share).toFixed(1)} %`, number: true },
      { name: "running", title: "Jobs running", value: (row) => row.running_jobs, number: true },
      { name: "wanted", title: "GPUs waited for", value: (row) => row.waiting_gpus, text: (row) => number(row.waiting_gpus), number: true },
      { name: "waiting", title: "Jobs waiting", value: (row) => row.waiting_jobs, number: true },
      { name: "used", title: "GPU-h in a day", value: (row) => hours(row.gpu_seconds), text: (row) => (row.gpu_seconds === null ? "" : number(Math.round(hours(row.gpu_seconds) * 10) / 10)), number: true },
    ],
  });
  const pools = new Table({
    name: "pools", label: "Pools", key: (row) => row.pool,
    columns: [
      { name: "pool", title: "Pool", value: (row) => row.pool },
      { name: "quota", title: "Quota", value: (row) => row.quota, number: true },
      { name: "held", title: "GPUs held", value: (row) => row.held_gpus, number: true },
      { name: "bar", line: true, plain: true, title: "Beside its quota", text: (row) => `${row.held_gpus} ${row.quota} ${row.most}`, draw: (row) => shareBar(row.held_gpus, row.quota, row.most) },
      { name: "used", title: "Of its quota", value: (row) => row.held_gpus / row.quota, text: (row) => (row.quota ? `${Math.round(100 * row.held_gpus / row.quota)} %` : ""), number: true },
      { name: "wanted", title: "GPUs waited for", value: (row) => row.waiting_gpus, number: true },
      { name: "lends", title: "Lends", value: (row) => (row.lends ? "yes" : "no") },
    ],
  });
  const poolPart = h("section", { hidden: true }, h("h2", {}, "Pools"), pools.element);
  const chart = h("div"), legend = h("ul", { class: "legend" });
  root.append(top("Shares", users.tools), users.element, poolPart,
    h("p", { class: "note" }, "A mark in a bar is the even share, or the quota. ",
      session.role === "operator" || session.run ? "" : "GPU-hours of others, and who held GPUs before, are for operators. ",
      "Held jobs do not count as waiting."),
    h("div", { class: "cards" }, h("section", { class: "card whole" }, h("h2", {}, "Who held the GPUs, and how many jobs waited", h("small", {}, "in the last day")), chart, legend)));
  let read = 0, closed = false, load = [], holdings = null, loads = -1;
  const drawChart = () => {
    const spans = cluster.heldSoFar(holdings), colors = seriesOf(cluster.jobs.values(), spans);
    const [made] = loadChart(load, cluster, chart.clientWidth, CHART_HEIGHT, { spans, colors });
    chart.replaceChildren(made);
    const others = spans.some(({ user }) => !colors.has(user)) ? [["others", "held"]] : [];
    legend.replaceChildren(...[...colors, ...others].map(([user, series]) => h("li", {}, h("i", { class: series }), user)));
  };
  const draw = async () => {
    read = performance.now();
    try {
      const asked = cluster.loads, known = loads === asked ? holdings : get("/v1/holdings"); // anew where frames were missed
      const [found, points, past] = await Promise.all([get("/v1/shares"), get("/v1/load"), known]);
      if (closed) return;
      [load, holdings, loads] = [named(points.columns, points.points), past, asked];
      const all = [...cluster.nodes.values()].reduce((sum, node) => sum + node.gpus, 0);
      const held = found.users.reduce((sum, row) => sum + row.held_gpus, 0);
      const fair = found.pools.length ? null : all / found.users.filter((row) => row.running_jobs || row.waiting_jobs).length;
      const most = Math.max(...found.pools.flatMap((row) => [row.held_gpus, row.quota]));
      users.show(found.users.map((row) => ({ ...row, all, fair: row.running_jobs || row.waiting_jobs ? fair : null, share: held ? row.held_gpus / held : 0 })));
      pools.show(found.pools.map((row) => ({ ...row, most })));
      poolPart.hidden = !found.pools.length;
      drawChart();
    } catch (error) {
      sayError(error);
    }
  };
  const observer = new ResizeObserver(() => { if (holdings) drawChart(); });
  observer.observe(chart);
  draw();
  return { update: () => { if (performance.now() - read > 10000) draw(); }, close: () => { closed = true; observer.disconnect(); } };
}
