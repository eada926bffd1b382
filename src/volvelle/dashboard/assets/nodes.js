// The nodes: a map of all GPUs, and a table.

import { h, number } from "./dom.js";
import { confirmed, say, sayError } from "./dialogs.js";
import { post } from "./api.js";
import { Table } from "./table.js";

const columns = [
  { name: "name", title: "Node", value: (node) => node.name },
  { name: "gpu_type", title: "Type", value: (node) => node.gpu_type || "GPU" },
  { name: "gpus", title: "GPUs", value: (node) => node.gpus, number: true },
  { name: "free", title: "Free", value: (node) => node.free, number: true },
  { name: "state", title: "State", value: (node) => node.state },
  { name: "jobs", title: "Jobs", value: (node) => node.jobs.join(" "), wide: true },
];

export function nodes(root, { cluster, session }) {
  const canvas = h("canvas", { class: "map", role: "img", "aria-label": "Map of the nodes: each box is a node, filled as far as its GPUs are held; the table below says the same." });
  const count = h("span", { class: "count" }), operator = session.role === "operator";
  const actions = (operator ? ["drain", "resume"] : []).map((action) =>
    h("button", { type: "button", disabled: true, onclick: () => change(action) }, action[0].toUpperCase() + action.slice(1)));
  const table = new Table({ name: "nodes", label: "Nodes", columns, key: (node) => node.name, select: operator,
    onselect: () => { for (const button of actions) button.disabled = !table.selected.size; } });
  const change = async (action) => {
    const names = [...table.selected];
    if (action === "drain" && !(await confirmed(`Drain ${names.length === 1 ? names[0] : `${names.length} nodes`}? Jobs there run to their ends.`, "Drain"))) return;
    try {
      for (const name of names) await post(`/v1/nodes/${encodeURIComponent(name)}/${action}`);
      say(`${names.length} nodes: ${action} is done.`);
    } catch (error) {
      sayError(error);
    }
  };
  const legend = h("ul", { class: "legend" }, ["held", "free", "fragmented", "out"].map((part) => h("li", {}, h("i", { class: part }), part === "out" ? "out of use" : part)));
  root.append(h("h1", {}, "Nodes"), canvas, legend, h("div", { class: "controls" }, actions, table.tools, count), table.element);
  let boxes = [];
  const draw = () => {
    const list = [...cluster.nodes.values()];
    boxes = drawMap(canvas, list);
    count.textContent = `${number(list.length)} nodes`;
    table.show(list);
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const found = boxes.find((each) => x >= each.x && x < each.x + each.size && y >= each.y && y < each.y + each.size);
    if (found) showTip(`${found.node.name}\n${found.node.free} of ${found.node.gpus} ${found.node.gpu_type || "GPUs"} free, ${found.node.state}\n${found.node.jobs.length ? `jobs ${found.node.jobs.join(", ")}` : ""}`, event);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  return { update: draw, close: () => { observer.disconnect(); hideTip(); } };
}

// Boxes in rows, as large as fits; the canvas is as high as they need.
function drawMap(canvas, list) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  const size = Math.max(8, Math.min(40, Math.floor(Math.sqrt(width * 220 / Math.max(1, list.length))))), across = Math.max(1, Math.floor(width / size));
  const height = Math.ceil(list.length / across) * size;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`);
  const colors = { held: color("series-1"), free: color("series-3"), fragmented: color("series-5"), out: color("axis"), paper: color("paper") };
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return list.map((node, at) => {
    const x = (at % across) * size, y = Math.floor(at / across) * size, gap = size > 12 ? 2 : 1;
    const down = node.state === "down", held = down ? 0 : (node.gpus - node.free) / node.gpus, tall = size - gap;
    pen.fillStyle = down || node.state !== "up" ? colors.out : node.free === node.gpus ? colors.free : colors.fragmented;
    pen.fillRect(x, y, tall, tall);
    pen.fillStyle = colors.held;
    pen.fillRect(x, y + tall * (1 - held), tall, tall * held);
    return { node, x, y, size };
  });
}
