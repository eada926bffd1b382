// Who held, holds and will hold the GPUs: past, present and predicted in one chart, that of the reports.

import { get, named } from "./api.js";
import { axisEnd, counted, h, moment, nameOf, now } from "./dom.js";
import { sayError } from "./dialogs.js";
import { colorsOf } from "./gpus.js";
import { LanePlan, runs } from "./lanes.js";
import { finishText } from "./queue.js";

const REDRAW_SECONDS = 10, ROWS_OF_A_PHONE = 24, MAX_PREDICTED = 2000, AHEAD_SECONDS = 86400;

export function timeline(root, { cluster, session, go }) {
  const option = (value, text) => h("option", { value }, text);
  const button = (sign, title, what) => h("button", { type: "button", title, "aria-label": title, "data-do": what }, sign);
  const canvas = h("canvas", { role: "application", "aria-label": "Which job held, holds and is expected to hold which GPUs. Arrow keys move, plus and minus zoom time, brackets zoom rows, 0 shows everything, n goes to now; j and k take jobs in hand, Enter opens the one in hand." });
  canvas.tabIndex = 0;
  const note = h("p", { class: "note" });
  const gantt = h("div", { class: "gantt" },
    h("div", { class: "controls" },
      h("label", {}, "Rows ", h("select", { name: "rows" }, option("gpus", "GPUs"), option("jobs", "jobs"))),
      h("label", {}, "Colour by ", h("select", { name: "color" }, option("user", "user"), option("width", "GPUs"), option("status", "state"))),
      h("span", {}, button("+", "Zoom in on time (+)", "in"), button("−", "Zoom out on time (-)", "out"), button("↕ +", "Taller rows (])", "taller"), button("↕ −", "Flatter rows ([)", "flatter"), button("All", "Show everything (0)", "all"), session.run ? null : button("Now", "To now (n)", "now"))),
    h("ul", { class: "legend" }), canvas);
  root.append(h("h1", {}, "Timeline"), gantt, note);
  const phone = matchMedia("(max-width: 820px)").matches; // a row of each job has room for its name
  if (phone) gantt.querySelector("[name=rows]").value = "jobs";
  let past = null, chart = null, drawn = 0, origin = session.run ? 0 : undefined, loads = 0, closed = false;

  const draw = () => {
    drawn = performance.now();
    if (!past.fits(cluster)) past = new Holdings(cluster, past.entries, origin);
    const { data, left } = past.chartData();
    origin = past.origin;
    if (chart) chart.update(data);
    else {
      chart = ganttChart(gantt, data, { laneName: laneNames(cluster.nodes), userColors: () => colorsOf(cluster.jobs.values()), open: (row) => { if (past.numbers[row] >= 0) go(`#/job/${past.numbers[row]}`); } });
      if (!session.run) chart.show({ left: Math.max(0, data.now - 6 * 3600), right: Math.min(data.span, data.usual, data.now + 12 * 3600) });
      if (phone) chart.show({ top: past.over.rows, bottom: past.over.rows + ROWS_OF_A_PHONE });
    }
    note.textContent = `${data.bars.job.length ? "" : "No job held a GPU yet, and none is expected to. "}Solid: held. Pale: predicted, from P50 of each job's start to P50 of its end, on the GPUs that come free first. A wedge: stopped, or expected to be, before its end; a mark at the right edge: expected to go on. `
      + (phone ? "Pinching zooms, dragging moves, a tap says what a bar is, another opens the job." : "Wheel or pinch zooms, dragging moves, a click opens the job, with Shift it takes it in hand.")
      + (left ? ` ${counted(left, "later start")} ${left === 1 ? "is" : "are"} left out.` : "");
  };
  const readPast = async () => {
    loads = cluster.loads;
    let entries = [];
    try {
      const table = await get("/v1/holdings");
      entries = named(table.columns, table.holdings);
    } catch (error) {
      sayError(error);
    }
    if (closed) return;
    past = new Holdings(cluster, entries, origin);
    draw();
  };
  readPast();
  return {
    update: () => {
      if (loads !== cluster.loads) readPast(); // frames were missed
      else if (chart && performance.now() - drawn > REDRAW_SECONDS * 1000) draw();
    },
    close: () => { closed = true; chart?.close(); },
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

// Of a lane: its node and GPU; where only some lanes are named, the node at its first.
function laneNames(nodes) {
  const names = [], firsts = new Map();
  for (const node of nodes.values()) {
    firsts.set(names.length, node.name);
    for (let gpu = 0; gpu < node.gpus; gpu++) names.push(`${node.name}:${gpu}`);
  }
  return (at, each) => (each ? names[at] : firsts.get(at)) ?? "";
}

// Numbers by row that grow.
class Numbers {
  constructor(kind) {
    this.values = new kind(1 << 12);
    this.length = 0;
  }

  push(value) {
    if (this.length === this.values.length) {
      const grown = new this.values.constructor(2 * this.length);
      grown.set(this.values);
      this.values = grown;
    }
    this.values[this.length++] = value;
  }

  get all() { return this.values.subarray(0, this.length); }
}

// Names by row, each kept once.
class Names {
  constructor() {
    this.names = [];
    this.of = [];
    this.at = new Map();
  }

  set(row, name) {
    let at = this.at.get(name);
    if (at === undefined) { at = this.names.length; this.names.push(name); this.at.set(name, at); }
    this.of[row] = at;
  }
}

// The data of the chart. What is over is kept from one drawing to the next; what runs and what is predicted stands
// behind it and is made anew each time. Times are seconds since `origin`.
class Holdings {
  // entries: rows of /v1/holdings. origin: that of before; undefined: none yet.
  constructor(cluster, entries, origin) {
    const time = now();
    this.cluster = cluster;
    this.entries = entries;
    [this.first, this.lanes] = firstLanes(cluster.nodes);
    this.origin = origin ?? Math.floor(Math.min(time - 120, ...entries.slice(0, 1).map((entry) => entry.start), earliest(cluster, time)));
    this.bars = { job: new Numbers(Int32Array), from: new Numbers(Float64Array), length: new Numbers(Float64Array), lane: new Numbers(Int32Array), height: new Numbers(Int32Array), predicted: new Numbers(Uint8Array), cut: new Numbers(Uint8Array) };
    this.numbers = []; // of the job in each row
    this.jobs = { id: [], name: new Names(), user: new Names(), status: new Names(), gpus: [], submitted: [], wait: [], stay: [], more: [] };
    this.rowOf = new Map(); // of jobs with something that is over
    this.ends = new Map(); // of these: when their last holding so far ended
    this.over = { bars: 0, rows: 0, later: 0 };
    for (const entry of entries) this.addPast(entry);
  }

  // Whether the lanes are still those of the nodes.
  fits(cluster) {
    const [, lanes] = firstLanes(cluster.nodes);
    return lanes === this.lanes && [...cluster.nodes.keys()].every((name) => this.first.has(name));
  }

  // Facts of the job in a row, the next row if it is a new one.
  setRow(row, { number, name, array_index: index, user, state, gpus, submitted, started, predicted_start: expected, predicted_p50: finish, predicted_p90: late }, end) {
    const jobs = this.jobs;
    this.numbers[row] = number;
    jobs.id[row] = number < 0 ? "another user's" : String(number);
    jobs.name.set(row, nameOf({ name, array_index: index }));
    jobs.user.set(row, user || "other users");
    jobs.status.set(row, state);
    jobs.gpus[row] = gpus;
    jobs.submitted[row] = Math.round(submitted - this.origin);
    jobs.wait[row] = started ? (started ?? expected) - submitted : null;
    jobs.stay[row] = end === null ? null : end - submitted;
    jobs.more[row] = !finish ? "" : `${started || !expected ? "" : `starts about ${moment(expected)}, `}finishes ${finishText({ predicted_p50: finish, predicted_p90: late })}${late > finish ? " (P50–P90)" : ""}`;
  }

  addPast({ number, name, array_index: index, user, start, end, grants }) {
    const live = this.cluster.jobs.get(number), gpus = grants.reduce((sum, [, each]) => sum + each.length, 0);
    const row = this.rowOf.get(number) ?? this.numbers.length;
    if (number >= 0) {
      this.rowOf.set(number, row);
      this.ends.set(number, end);
    }
    this.setRow(row, { number, name, array_index: index ?? live?.array_index, user, state: live?.state ?? "over", gpus, submitted: live?.submitted ?? start, started: start }, live ? null : end);
    this.place(row, grants, Math.max(start, this.origin), end, 0);
    this.over.bars = this.bars.job.length;
    this.over.rows = this.numbers.length;
  }

  add(row, start, end, lane, height, predicted, cut = 0) {
    const { bars } = this;
    bars.job.push(row);
    bars.from.push(Math.round(start - this.origin));
    bars.length.push(Math.max(1, Math.round(end - start)));
    bars.lane.push(lane);
    bars.height.push(height);
    bars.predicted.push(predicted);
    bars.cut.push(cut);
  }

  place(row, grants, start, end, predicted) {
    for (const [node, gpus] of grants) {
      if (!this.first.has(node)) continue; // it has left
      for (const [lane, height] of runs(gpus)) this.add(row, start, end, this.first.get(node) + lane, height, predicted);
    }
  }

  // Drop what runs and what is predicted, and take over what has ended since.
  rewind() {
    for (const column of Object.values(this.bars)) column.length = this.over.bars;
    this.numbers.length = this.over.rows;
    const { past } = this.cluster;
    for (; this.over.later < past.length; this.over.later++) this.addPast(past[this.over.later]);
    for (const [number, row] of this.rowOf) {
      if (this.jobs.stay[row] !== null || this.cluster.jobs.has(number)) continue;
      this.jobs.status.set(row, "over"); // it ended while it held nothing
      this.jobs.stay[row] = this.ends.get(number) - this.origin - this.jobs.submitted[row];
    }
    for (const column of Object.values(this.jobs)) (column.of ?? column).length = this.over.rows;
  }

  // The row of a job that is not over.
  liveRow(job) {
    const row = this.rowOf.get(job.number) ?? this.numbers.length;
    this.setRow(row, job, null);
    return row;
  }

  // What there is to draw, and how many later starts are left out.
  chartData() {
    const time = now(), plan = new LanePlan(this.lanes, time), waiting = [];
    const ends = [];
    this.rewind();
    for (const job of this.cluster.jobs.values()) {
      if (job.grants.length) {
        const row = this.liveRow(job), until = job.state === "stopping" ? time : Math.max(job.predicted_p50 ?? time, time);
        this.place(row, job.grants, job.started ?? time, time, 0);
        plan.hold(row, until, job.grants.flatMap(([node, gpus]) => (this.first.has(node) ? gpus.map((gpu) => this.first.get(node) + gpu) : [])));
        ends.push(until);
      } else if (job.predicted_start && job.predicted_p50 && job.predicted_start < time + AHEAD_SECONDS) {
        waiting.push(job);
      }
    }
    waiting.sort((a, b) => a.predicted_start - b.predicted_start);
    plan.free();
    for (const job of waiting.slice(0, MAX_PREDICTED)) {
      const from = Math.max(job.predicted_start, time), until = Math.max(job.predicted_p50, from);
      plan.start(this.liveRow(job), from, until, job.gpus);
      ends.push(until);
    }
    for (const { row, from, until, lane, height, cut } of plan.bars()) this.add(row, from, until, lane, height, 1, cut);
    return { data: this.data(time, ends.filter((end) => end > time)), left: Math.max(0, waiting.length - MAX_PREDICTED) };
  }

  // ends: of what is expected.
  data(time, ends) {
    const { jobs, origin } = this, none = { names: [""], of: [] };
    const ticks = (end) => Math.ceil(Math.min(end, time + AHEAD_SECONDS) - origin) + 60;
    const bars = Object.fromEntries(Object.entries(this.bars).map(([name, column]) => [name, column.all]));
    return {
      tick: 1, epoch: origin || undefined, now: time - origin, span: ticks(ends.reduce((last, end) => Math.max(last, end), time)), usual: ticks(axisEnd(ends, time)), lanes: Math.max(1, this.lanes), perGpu: 1, placed: true,
      jobs: { ...jobs, pool: none, class: none }, bars,
    };
  }
}

function earliest(cluster, time) {
  let found = time;
  for (const job of cluster.jobs.values()) if (job.started && job.started < found) found = job.started;
  return Math.max(found, time - AHEAD_SECONDS);
}
