// Who held, holds and will hold the GPUs: past, present and predicted in one chart, that of the reports.

import { get } from "./api.js";
import { h, now, number } from "./dom.js";
import { sayError } from "./dialogs.js";

const REDRAW_SECONDS = 10, MAX_PREDICTED = 2000, AHEAD_SECONDS = 86400;

export function timeline(root, { cluster, session, go }) {
  const option = (value, text) => h("option", { value }, text);
  const button = (sign, title, what) => h("button", { type: "button", title, "aria-label": title, "data-do": what }, sign);
  const canvas = h("canvas", { role: "application", "aria-label": "Which job held, holds and is expected to hold which GPUs. Arrow keys move, plus and minus zoom time, brackets zoom rows, 0 shows everything." });
  canvas.tabIndex = 0;
  const note = h("p", { class: "note" });
  const gantt = h("div", { class: "gantt" },
    h("div", { class: "controls" },
      h("label", {}, "Rows ", h("select", { name: "rows" }, option("gpus", "GPUs"), option("jobs", "jobs"))),
      h("label", {}, "Colour by ", h("select", { name: "color" }, option("user", "user"), option("width", "GPUs"), option("status", "state"))),
      h("span", {}, button("+", "Zoom in on time (+)", "in"), button("−", "Zoom out on time (-)", "out"), button("↕ +", "Taller rows (])", "taller"), button("↕ −", "Flatter rows ([)", "flatter"), button("All", "Show everything (0)", "all"))),
    canvas, h("ul", { class: "legend" }));
  root.append(h("h1", {}, "Timeline"), gantt, note);
  let past = [], chart = null, drawn = 0, known = null, loads = 0, closed = false;

  const draw = () => {
    drawn = performance.now();
    const { data, numbers, left } = chartData(cluster, [...past, ...cluster.past], session.run ? 0 : known?.origin);
    known = { origin: data.epoch ?? 0, numbers };
    if (chart) setTimeout(() => chart.update(data)); // a task of its own: none is long
    else {
      chart = ganttChart(gantt, data, { laneName: laneNames(cluster.nodes), open: (row) => { if (known.numbers[row] >= 0) go(`#/job/${known.numbers[row]}`); } });
      if (!session.run) chart.show(Math.max(0, data.now - 6 * 3600), Math.min(data.span, data.now + 12 * 3600));
    }
    note.textContent = "Left of now: what was held, as the server remembers it. Pale: predicted; running jobs to their P50, waiting ones "
      + "from their expected start, on GPUs that come free first (which ones is decided only then). Wheel or pinch zooms, dragging moves, a click opens the job."
      + (left ? ` ${number(left)} later starts are left out.` : "");
  };
  const readPast = async () => {
    loads = cluster.loads;
    try {
      past = (await get("/v1/holdings")).holdings;
    } catch (error) {
      sayError(error);
    }
    if (!closed) draw();
  };
  readPast();
  return {
    update: () => {
      if (loads !== cluster.loads) readPast(); // frames were missed
      else if (chart && performance.now() - drawn > REDRAW_SECONDS * 1000) draw();
    },
    close: () => { closed = true; },
  };
}

// Lane 0 is the first GPU of the first node.
function firstLanes(nodes) {
  const first = new Map();
  let lanes = 0;
  for (const node of nodes.values()) {
    first.set(node.name, lanes);
    lanes += node.gpus;
  }
  return [first, lanes];
}

function laneNames(nodes) {
  const names = [];
  for (const node of nodes.values()) for (let gpu = 0; gpu < node.gpus; gpu++) names.push(gpu ? `${node.name}:${gpu}` : node.name);
  return (at) => names[at] ?? "";
}

// The chart's data; ticks are seconds since `origin`.
export function chartData(cluster, past, origin) {
  const time = now(), [first, lanes] = firstLanes(cluster.nodes);
  const epoch = origin ?? Math.floor(Math.min(time - 600, ...past.map((row) => row[3]).slice(0, 1), earliest(cluster, time)));
  const rows = new Map(), list = [], bars = { job: [], from: [], length: [], lane: [], height: [], predicted: [] };
  const rowOf = (number, name, user, of) => {
    const key = number < 0 ? `-${list.length}` : number;
    if (!rows.has(key)) { rows.set(key, list.length); list.push({ number, name, user, ...of }); }
    return rows.get(key);
  };
  const add = (row, start, end, lane, height, predicted) => {
    bars.job.push(row);
    bars.from.push(Math.round(start - epoch));
    bars.length.push(Math.max(1, Math.round(end - start)));
    bars.lane.push(lane);
    bars.height.push(height);
    bars.predicted.push(predicted);
  };
  const place = (row, grants, start, end, predicted) => {
    for (const [node, gpus] of grants) {
      if (!first.has(node)) continue; // it has left
      for (const [lane, height] of runs(gpus)) add(row, start, end, first.get(node) + lane, height, predicted);
    }
  };
  for (const [number, name, user, start, end, grants] of past) {
    const live = cluster.jobs.get(number), gpus = grants.reduce((sum, [, each]) => sum + each.length, 0);
    place(rowOf(number, name, user, { gpus, state: live?.state ?? "over", submitted: live?.submitted ?? start, started: start, end: live ? null : end }), grants, Math.max(start, epoch), end, 0);
  }
  const freeFrom = new Float64Array(lanes).fill(time), waiting = [];
  let last = time;
  for (const job of cluster.jobs.values()) {
    if (job.grants.length) {
      const row = rowOf(job.number, job.name, job.user, { ...job, end: null }), until = Math.max(job.predicted_p50 ?? time, time);
      place(row, job.grants, job.started ?? time, time, 0);
      place(row, job.grants, time, until, 1);
      for (const [node, gpus] of job.grants) if (first.has(node)) for (const gpu of gpus) freeFrom[first.get(node) + gpu] = until;
      last = Math.max(last, Math.min(until, time + AHEAD_SECONDS));
    } else if (job.predicted_start && job.predicted_p50 && job.predicted_start < time + AHEAD_SECONDS) {
      waiting.push(job);
    }
  }
  waiting.sort((a, b) => a.predicted_start - b.predicted_start);
  const left = Math.max(0, waiting.length - MAX_PREDICTED);
  const heap = new LaneHeap(freeFrom);
  for (const job of waiting.slice(0, MAX_PREDICTED)) {
    const row = rowOf(job.number, job.name, job.user, { ...job, end: null }), taken = [];
    const from = Math.max(job.predicted_start, time), until = Math.max(job.predicted_p50, from);
    for (let gpu = 0; gpu < job.gpus && heap.size; gpu++) taken.push(heap.pop());
    for (const lane of taken) heap.push(lane, until);
    for (const [lane, height] of runs(taken.sort((a, b) => a - b))) add(row, from, until, lane, height, 1);
    last = Math.max(last, Math.min(until, time + AHEAD_SECONDS));
  }
  return { data: assemble(list, bars, { epoch, lanes, now: time - epoch, span: Math.ceil(last - epoch) + 60 }), numbers: list.map((each) => each.number), left };
}

function earliest(cluster, time) {
  let found = time;
  for (const job of cluster.jobs.values()) if (job.started && job.started < found) found = job.started;
  return Math.max(found, time - AHEAD_SECONDS);
}

function assemble(list, bars, { epoch, lanes, now, span }) {
  const differences = (values) => values.map((value, at) => value - (at ? values[at - 1] : 0));
  const named = (value) => {
    const names = [], at = new Map();
    const of = list.map((each) => {
      const name = value(each);
      if (!at.has(name)) { at.set(name, names.length); names.push(name); }
      return at.get(name);
    });
    return { names, of };
  };
  const since = (each) => (each.started ?? each.predicted_start ?? each.submitted) - each.submitted;
  return {
    tick: 1, epoch: epoch || undefined, now, span, lanes: Math.max(1, lanes), perGpu: 1, placed: true,
    jobs: {
      id: list.map((each) => (each.number < 0 ? "another user's" : String(each.number))),
      name: named((each) => each.name), user: named((each) => each.user || "other users"), pool: { names: [""], of: [] }, class: { names: [""], of: [] },
      status: named((each) => each.state), gpus: list.map((each) => each.gpus),
      submit: differences(list.map((each) => Math.round(each.submitted - epoch))),
      wait: list.map((each) => (each.started ? since(each) : null)),
      stay: list.map((each) => (each.end === null ? null : each.end - each.submitted)),
    },
    bars: { job: bars.job, start: differences(bars.from), length: bars.length, lane: bars.lane, height: bars.height, predicted: bars.predicted },
  };
}

// Neighbouring lanes as [first, number].
function runs(lanes) {
  const found = [];
  for (const lane of lanes) {
    const run = found.at(-1);
    if (run && run[0] + run[1] === lane) run[1] += 1; else found.push([lane, 1]);
  }
  return found;
}

// Lanes by when they come free, the lower first among equals.
class LaneHeap {
  constructor(freeFrom) {
    this.until = freeFrom;
    this.lanes = [...freeFrom.keys()].sort((a, b) => freeFrom[a] - freeFrom[b] || a - b); // sorted: a heap
  }

  get size() { return this.lanes.length; }

  before(a, b) { return this.until[a] - this.until[b] || a - b; }

  pop() {
    const top = this.lanes[0], last = this.lanes.pop();
    if (this.lanes.length) { this.lanes[0] = last; this.sink(0); }
    return top;
  }

  push(lane, until) {
    this.until[lane] = until;
    this.lanes.push(lane);
    for (let at = this.lanes.length - 1; at > 0;) {
      const parent = (at - 1) >> 1;
      if (this.before(this.lanes[parent], this.lanes[at]) <= 0) return;
      [this.lanes[parent], this.lanes[at]] = [this.lanes[at], this.lanes[parent]];
      at = parent;
    }
  }

  sink(at) {
    for (;;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) if (child < this.lanes.length && this.before(this.lanes[child], this.lanes[least]) < 0) least = child;
      if (least === at) return;
      [this.lanes[least], this.lanes[at]] = [this.lanes[at], this.lanes[least]];
      at = least;
    }
  }
}
