// The nodes: a map of all GPUs, and a table.

import { capital, counted, h, jobId, top } from "./dom.js";
import { confirmed, say, sayError } from "./dialogs.js";
import { post } from "./api.js";
import { gpuMap } from "./gpus.js";
import { Table } from "./table.js";

// States in which a node takes no jobs: its GPUs are not free for any.
const OUT = new Set(["down", "draining"]);

const columns = (unit) => [
  { name: "name", title: capital(unit), value: (node) => node.name, plain: true },
  { name: "gpu_type", title: "Type", value: (node) => node.gpu_type || "GPU" },
  { name: "gpus", title: "GPUs", value: (node) => node.gpus, number: true },
  { name: "free", title: "Free", value: (node) => (OUT.has(node.state) ? null : node.free), number: true },
  { name: "state", title: "State", value: (node) => node.state, state: true, plain: true },
  { name: "away", title: "Agent", value: (node) => node.away, wide: true, line: true, optional: true, late: () => true },
  { name: "jobs", title: "Jobs", value: (node) => node.jobs.join(" "), draw: (node) => h("span", {}, node.jobs.flatMap((job) => [h("a", { href: `#/job/${job}`, tabIndex: -1 }, jobId(job)), " "])), wide: true, line: true, gaps: true },
];

export function nodes(root, { cluster, session, go }) {
  const picture = h("div", { class: "map" });
  const count = h("span", { class: "count" }), operator = session.role === "operator" && !session.reads;
  const actions = (operator ? ["drain", "resume"] : []).map((action) =>
    h("button", { type: "button", disabled: true, onclick: () => change(action) }, capital(action)));
  const table = new Table({ name: "nodes", label: "Nodes", columns: columns(cluster.unit), key: (node) => node.name, select: operator,
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
  const map = gpuMap(picture, cluster, go);
  const draw = () => {
    const list = [...cluster.nodes.values()];
    map.draw();
    count.textContent = counted(list.length, cluster.unit);
    table.show(list);
  };
  draw();
  return { update: draw, close: map.close };
}
