// Every GPU as a cell, coloured by its holder's user, or what becomes of it: a column of eight is a node, or a part of
// one; or, where there are few, a card for each node.

import { finishText, atRisk, startOf } from "./queue.js";
import { counted, h, jobId, moment, nameOf, now, number, renew } from "./dom.js";

const TALL = 8, GAP = 2, WIDEST = 160, NAME = 14, APART = 4;
const MOST_CARDS = 64, MOST_ON_CARD = 16, FEW_CARDS = 12, LISTED = 5; // a few have room for their jobs
const BORROWS = "on GPUs that its pool borrows"; // as the server says it

// Series of the palette that no state has the colour of, for the users who hold most.
export const SERIES = ["series-3", "series-5", "series-4", "series-7"];
const COUNTED_ONLY = "This run's placement counted GPUs: on which nodes jobs were is not known. "
  + "One such as consolidated names them.";
const KINDS = { held: "in use", borrowed: "borrowed", risk: "at risk of being late", free: "free", out: "out of use" };

// By GPU type: GPUs in all, held, free, of these on nodes beside jobs, and out of use.
export function gpusByType(nodes) {
  const types = new Map();
  for (const node of nodes) {
    const none = { type: node.gpu_type, gpus: 0, held: 0, free: 0, beside: 0, out: 0, nodes: [] };
    const sums = types.get(node.gpu_type) ?? none;
    types.set(node.gpu_type, sums);
    sums.gpus += node.gpus;
    sums.nodes.push(node);
    if (node.state === "down") { sums.out += node.gpus; continue; }
    sums.held += node.gpus - node.free;
    if (node.state !== "up") { sums.out += node.free; continue; }
    sums.free += node.free;
    if (node.free < node.gpus) sums.beside += node.free;
  }
  return [...types.values()].sort((a, b) => b.gpus - a.gpus);
}

// Maps of all types in `root`, or `cards` of nodes; `draw` after each change.
export function gpuMap(root, cluster, go, cards = false) {
  const draw = () => {
    const holders = new Map(), seen = new Set();
    for (const job of cluster.jobs.values()) {
      for (const [node, gpus] of job.grants) for (const gpu of gpus) holders.set(`${node}:${gpu}`, job);
    }
    const colors = colorsOf(cluster.jobs.values());
    const types = gpusByType(cluster.nodes.values());
    const wide = widthOf(types.map((type) => gpuColumns(type.nodes)), root.clientWidth);
    const holding = (node, gpu) => {
      const job = holders.get(`${node.name}:${gpu}`), kind = kindOf(job, node);
      const series = kind === "held" && colors.get(job.user);
      seen.add(series ? job.user : kind);
      return { node, gpu, job, kind, series };
    };
    const small = types.every(({ nodes }) => nodes.every(({ gpus }) => gpus <= MOST_ON_CARD));
    const single = cards && cluster.unit === "node" && cluster.nodes.size <= MOST_CARDS && small;
    const maps = types.map((type) => h("div", { class: single ? "across" : null }, typeLine(type, cluster.unit),
      single ? nodeCards(type, holding, cluster) : typeMap(type, holding, wide, root.clientWidth, go, cluster.unit)));
    const item = (style, text) => h("li", {}, h("i", { class: style }), text);
    const users = [...colors].filter(([user]) => seen.has(user)).map(([user, series]) => item(series, user));
    const kinds = Object.keys(KINDS).filter((kind) => seen.has(kind))
      .map((kind) => item(kind, kind === "held" && users.length ? "others" : KINDS[kind]));
    renew(root, h("div", { class: "types" }, maps), h("ul", { class: "legend" }, users, kinds),
      ...(cluster.unit === "cluster" ? [h("p", { class: "note" }, COUNTED_ONLY)] : []));
  };
  const observer = new ResizeObserver(draw);
  observer.observe(root);
  addEventListener("theme", draw);
  return { draw, close: () => { observer.disconnect(); removeEventListener("theme", draw); hideTip(); } };
}

// How wide a column is, of types that take so many: all beside each other, or the largest in one line, or in about two.
function widthOf(columns, width) {
  const all = columns.reduce((sum, each) => sum + each, 0), fits = (count) => Math.floor(width / Math.max(1, count));
  const beside = fits(all + columns.length), largest = fits(Math.max(...columns));
  const wide = beside >= 16 ? beside : largest >= 12 ? largest : 2 * fits(all);
  return Math.max(5, Math.min(WIDEST, wide));
}

// How many columns nodes take.
export const gpuColumns = (nodes) => [...nodes].reduce((sum, node) => sum + Math.ceil(node.gpus / TALL), 0);

// The colours of the users who hold most GPUs, where there are several; the others have that of use.
export function colorsOf(jobs) {
  const held = new Map();
  for (const job of jobs) if (job.grants.length) held.set(job.user, (held.get(job.user) ?? 0) + job.gpus);
  if (held.size < 2) return new Map();
  const most = [...held].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, SERIES.length);
  return new Map(most.map(([user]) => user).sort().map((user, at) => [user, SERIES[at]]));
}

function kindOf(job, node) {
  if (!job) return node.state === "up" ? "free" : "out";
  return atRisk(job) ? "risk" : job.reason === BORROWS ? "borrowed" : "held";
}

function typeLine(type, unit) {
  const apart = unit === "node"; // else they are all in one, or only counted
  const some = type.beside === type.free ? "" : `, ${number(type.beside)} of them`;
  const beside = apart && type.beside ? `${some} beside running jobs` : "";
  const rest = [`${number(type.free)} free${beside}`, type.out ? `${number(type.out)} out of use` : ""];
  return h("p", { class: "type" }, h("b", {}, h("a", { href: "#/nodes" }, type.type || "GPU")),
    ` ${number(type.held)} of ${number(type.gpus)} in use`, apart ? ` on ${counted(type.nodes.length, unit)}` : "",
    `; ${rest.filter(Boolean).join("; ")}`);
}

// What the first of a node's jobs gives back when it ends: {at, gpus}; null where that is not known.
export function nextFree(node, cluster) {
  let first = null;
  for (const job of node.jobs.map((each) => cluster.jobs.get(each))) {
    if (!job?.predicted_p50 || first?.at <= job.predicted_p50) continue;
    first = { at: job.predicted_p50, gpus: job.grants.find(([name]) => name === node.name)?.[1].length };
  }
  return first?.gpus ? { ...first, at: Math.max(first.at, now()) } : null;
}

function nodeCards(type, holding, cluster) {
  return h("ul", { class: "nodes" }, type.nodes.map((node) => {
    const listed = cluster.nodes.size > FEW_CARDS ? [] : jobsOf(node, cluster);
    const reached = new Set(listed.slice(0, LISTED));
    const next = nextFree(node, cluster), out = node.state !== "up";
    const state = out ? [node.state, node.state] : node.away ? ["risk", "out of reach"] : null;
    return h("li", {},
      h("p", {}, h("b", {}, node.name), state ? h("span", { class: "chip", "data-state": state[0] }, state[1])
        : h("span", { class: "quiet" }, node.free ? `${number(node.free)} free` : "full")),
      h("div", { class: "cells" }, Array.from({ length: node.gpus }, (_, gpu) => cellOf(holding(node, gpu), reached))),
      h("p", { class: "quiet" }, h("span", {}, `${number(node.gpus - node.free)} of ${number(node.gpus)} in use`),
        h("span", {}, next ? `${number(next.gpus)} ${out ? "done" : "free"} at ${moment(next.at)}` : "")),
      listed.length ? jobList(listed) : null);
  }));
}

// A GPU as a cell, which leads to its job; by keyboard the first cell of each job that is not `reached` so far.
function cellOf(cell, reached) {
  const { job, node, series, kind } = cell, first = job && !reached.has(job);
  if (first) reached.add(job);
  const tip = { onpointermove: (event) => showTip(words(cell), event), onpointerleave: hideTip };
  if (!job) return h("i", { class: kind, ...tip });
  const onfocus = ({ target }) => {
    const { left, bottom } = target.getBoundingClientRect();
    showTip(words(cell), { clientX: left, clientY: bottom });
  };
  const place = first ? { "aria-label": `${jobId(job.number)} ${nameOf(job)} on ${node.name}` }
    : { tabIndex: -1, "aria-hidden": "true" };
  return h("a", { href: `#/job/${job.number}`, class: series || kind, ...tip, onfocus, onblur: hideTip, ...place });
}

// The jobs of a node, by their finishes.
const jobsOf = (node, cluster) => node.jobs.map((each) => cluster.jobs.get(each)).filter(Boolean)
  .sort((a, b) => (a.predicted_p50 ?? Infinity) - (b.predicted_p50 ?? Infinity));

function jobList(jobs) {
  const row = (job) => h("li", {}, h("span", { class: "quiet" }, jobId(job.number)),
    h("span", { class: "name" }, h("a", { href: `#/job/${job.number}` }, nameOf(job))),
    h("span", { class: "quiet" }, job.predicted_p50 ? moment(Math.max(job.predicted_p50, now())) : ""));
  const more = jobs.length > LISTED ? h("li", { class: "quiet" }, `and ${number(jobs.length - LISTED)} more`) : null;
  return h("ul", { class: "jobs desk" }, jobs.slice(0, LISTED).map(row), more);
}

function typeMap(type, holding, wide, most, go, unit) {
  const cells = [], names = [], across = Math.max(1, Math.floor(most / wide)), above = unit === "node" ? NAME : 0;
  const high = Math.max(4, Math.min(13, Math.round(0.6 * wide)));
  const deep = above + Math.min(TALL, Math.max(...type.nodes.map((node) => node.gpus))) * high + 6;
  let column = 0;
  for (const node of type.nodes) {
    if (above) names.push({ name: node.name, x: (column % across) * wide, y: Math.floor(column / across) * deep });
    for (let gpu = 0; gpu < node.gpus; gpu++) {
      if (gpu && gpu % TALL === 0) column += 1;
      const x = (column % across) * wide, y = Math.floor(column / across) * deep + above + (gpu % TALL) * high;
      cells.push({ ...holding(node, gpu), x, y });
    }
    column += 1;
  }
  const label = `GPUs of type ${type.type || "GPU"} by their holders; the views Nodes and Queue say the same in words.`;
  const canvas = h("canvas", { role: "img", "aria-label": label });
  paint(canvas, cells, names, most, Math.min(column, across) * wide, Math.ceil(column / across) * deep, wide, high);
  const at = ({ offsetX, offsetY }) => cells.find(({ x, y }) => (
    offsetX >= x && offsetX < x + wide && offsetY >= y && offsetY < y + high));
  canvas.addEventListener("pointermove", (event) => {
    const cell = at(event);
    if (cell) showTip(words(cell), event); else hideTip();
    canvas.classList.toggle("leads", Boolean(cell?.job));
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => { const job = at(event)?.job; if (job) go(`#/job/${job.number}`); });
  return canvas;
}

// Of `names` those that have room, above the first columns of their nodes.
function named(pen, names, width) {
  let free = 0, line = -1;
  return names.filter(({ name, x, y }) => {
    const end = x + pen.measureText(name).width;
    if (y !== line) [free, line] = [0, y];
    if (x < free || (x && end > width)) return false;
    free = end + APART;
    return true;
  });
}

function paint(canvas, cells, names, most, across, height, wide, high) {
  const ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const color = (role) => style.getPropertyValue(`--${role}`);
  const colors = {
    held: color("state-running"), borrowed: color("state-borrowed"), risk: color("state-risk"),
    free: color("state-free"), out: color("axis"),
  };
  const font = pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const width = Math.min(most, Math.max(across, ...names.slice(0, 1).map(({ name }) => pen.measureText(name).width)));
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  pen.scale(ratio, ratio);
  pen.font = font;
  pen.fillStyle = color("muted");
  for (const { name, x, y } of named(pen, names, width)) pen.fillText(name, x, y + NAME - 4);
  for (const { x, y, kind, series } of cells) {
    pen.fillStyle = series ? color(series) : colors[kind];
    pen.fillRect(x, y, wide - GAP, high - (high > 5 ? GAP : 1));
  }
}

const words = ({ node, gpu, job }) => (job
  ? `${jobId(job.number)} ${nameOf(job)}\n${job.user}, ${counted(job.gpus, "GPU")}\n`
    + `${node.name}, since ${startOf(job)}\nfinishes ${finishText(job)}`
  : `${node.name}, GPU ${gpu}\n${node.state === "up" ? "free" : node.state}`);
