// The nodes: who holds their GPUs, and a table.

import { capital, counted, h, jobId, moment, now, number, top } from "./dom.js";
import { confirmed, say, sayError } from "./dialogs.js";
import { get, post } from "./api.js";
import { gpuMap, nextFree } from "./gpus.js";
import { Table } from "./table.js";

// States in which a node takes no jobs: its GPUs are not free for any.
const OUT = new Set(["down", "draining"]);

const columns = (cluster, used) => [
  { name: "name", title: capital(cluster.unit), value: (node) => node.name, plain: true },
  { name: "gpu_type", title: "Type", value: (node) => node.gpu_type || "GPU" },
  { name: "gpus", title: "GPUs", value: (node) => node.gpus, number: true },
  { name: "free", title: "Free", value: (node) => (OUT.has(node.state) ? null : node.free), number: true },
  { name: "state", title: "State", value: (node) => node.state, state: true, plain: true },
  { name: "next", title: "Next free", time: true, value: (node) => nextFree(node, cluster)?.at, text: (node) => { const next = nextFree(node, cluster); return next ? `${moment(next.at)} (${number(next.gpus)})` : ""; }, optional: true },
  { name: "used", title: "Used in a day", value: (node) => used.get(node.name), text: (node) => (used.has(node.name) ? `${Math.round(100 * used.get(node.name))} %` : ""), number: true, optional: true },
  { name: "away", title: "Agent", value: (node) => node.away, wide: true, line: true, optional: true, late: () => true },
  { name: "jobs", title: "Jobs", value: (node) => node.jobs.join(" "), draw: (node) => h("span", {}, node.jobs.flatMap((job) => [h("a", { href: `#/job/${job}` }, jobId(job)), " "])), wide: true, line: true, gaps: true },
];

const DAY = 86400, COUNT_SECONDS = 10;

// Of each node the share of its GPU time that jobs held, in a day or since the first start that is known, is put into `used`.
// holdings: of /v1/holdings.
function countUse(holdings, cluster, used) {
  const time = now(), all = cluster.heldSoFar(holdings), from = Math.max(time - DAY, all.reduce((first, { start }) => Math.min(first, start), time)), held = new Map();
  for (const { start, end, grants } of all) {
    const seconds = Math.min(end, time) - Math.max(start, from);
    if (seconds > 0) for (const [node, gpus] of grants) held.set(node, (held.get(node) ?? 0) + seconds * gpus.length);
  }
  used.clear();
  if (time > from) for (const { name, gpus } of cluster.nodes.values()) used.set(name, Math.min(1, (held.get(name) ?? 0) / (gpus * (time - from))));
}

export function nodes(root, { cluster, session, go }) {
  const used = new Map();
  let holdings = null, countedAt = 0, loads = 0;
  const picture = h("div", { class: "map" });
  const count = h("span", { class: "count" }), operator = session.role === "operator" && !session.reads;
  const actions = (operator ? ["drain", "resume"] : []).map((action) =>
    h("button", { type: "button", disabled: true, onclick: () => change(action) }, capital(action)));
  const table = new Table({ name: "nodes", label: "Nodes", columns: columns(cluster, used), key: (node) => node.name, select: operator,
    onselect: () => { for (const button of actions) button.disabled = !table.selected.size; } });
  const change = async (action) => {
    const names = [...table.selected];
    if (action === "drain" && !(await confirmed(`Drain ${names.length === 1 ? names[0] : counted(names.length, "node")}? Jobs there run to their ends.`, "Drain"))) return;
    try {
      for (const name of names) await post(`/v1/nodes/${encodeURIComponent(name)}/${action}`);
      say(`${counted(names.length, "node")}: ${action} is done.`);
    } catch (error) {
      sayError(error);
    }
  };
  root.append(top("Nodes", table.tools), picture, h("div", { class: "controls" }, actions, count), table.element);
  const map = gpuMap(picture, cluster, go, true);
  const readPast = () => {
    loads = cluster.loads;
    get("/v1/holdings").then((found) => {
      [holdings, countedAt] = [found, -Infinity];
      draw();
    }, sayError);
  };
  const draw = () => {
    const list = [...cluster.nodes.values()];
    map.draw();
    if (loads !== cluster.loads) readPast(); // frames were missed, or it is another moment of a run
    if (holdings && now() - countedAt > COUNT_SECONDS) {
      countUse(holdings, cluster, used);
      countedAt = now();
    }
    count.textContent = counted(list.length, cluster.unit);
    table.show(list);
  };
  draw();
  return { update: draw, close: map.close };
}
