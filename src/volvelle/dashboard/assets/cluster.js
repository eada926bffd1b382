// The live cluster: jobs and nodes as rows, kept up to date by the server's frames.

import { ApiError, events, get, named } from "./api.js";
import { now } from "./dom.js";

export class Cluster {
  constructor(unit = "node") {
    this.unit = unit; // what holds GPUs, in the word of its scheduler
    this.jobs = new Map(); // job objects by number
    this.nodes = new Map(); // node objects by name, in the server's order
    this.time = 0;
    this.policy = "";
    this.admission = "";
    this.past = []; // holdings of GPUs that ended since all was loaded, as the rows of /v1/holdings
    this.loads = 0;
    this.connected = false;
    this.listeners = new Set();
    this.stopped = new AbortController();
  }

  // Load all, and follow a server until `close`; resolves when all is loaded.
  async open(follow) {
    await this.load();
    if (follow) this.follow();
  }

  close() { this.stopped.abort(); }

  async load() {
    const table = await get("/v1/queue");
    this.jobColumns = table.job_columns;
    this.jobTitles = table.job_titles;
    this.forecastColumns = table.forecast_columns;
    this.nodeColumns = table.node_columns;
    this.seq = table.seq;
    this.jobs.clear();
    this.nodes.clear();
    this.past = [];
    this.loads += 1;
    this.take({ ...table, forecasts: [], gone: [] });
  }

  // A page that nobody looks at does not listen: browsers open six connections to a server at most.
  async follow() {
    const stopped = this.stopped.signal;
    const turned = () => new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true, signal: stopped }));
    while (!stopped.aborted) {
      if (document.hidden) {
        await turned();
        continue;
      }
      const streaming = new AbortController(), pause = () => streaming.abort();
      document.addEventListener("visibilitychange", pause, { once: true });
      try {
        for await (const event of events(`/v1/queue/changes?after=${this.seq}`, AbortSignal.any([stopped, streaming.signal]))) {
          this.connected = true;
          if (event.name === "gap") break;
          performance.mark("frame");
          this.take(JSON.parse(event.data));
          this.seq += 1;
          performance.measure("take a frame", "frame"); // for benchmarks/dashboard.py
        }
        await this.load();
      } catch (error) {
        if (stopped.aborted || (error instanceof ApiError && error.status === 401)) return;
        if (streaming.signal.aborted) continue;
        this.connected = false;
        this.tell();
        await new Promise((resolve) => setTimeout(resolve, 2000));
      } finally {
        document.removeEventListener("visibilitychange", pause);
      }
    }
  }

  // Take over a frame (or the whole table) and tell the views once.
  take(frame) {
    for (const job of named(this.jobColumns, frame.jobs)) {
      const before = this.jobs.get(job.number);
      if (before && before.started !== job.started) this.keep(before, frame.time);
      if (before) Object.assign(before, job); else this.jobs.set(job.number, job);
    }
    for (const forecast of named(this.forecastColumns, frame.forecasts)) {
      const job = this.jobs.get(forecast.number);
      if (job) Object.assign(job, forecast);
    }
    for (const number of frame.gone) {
      this.keep(this.jobs.get(number), frame.time);
      this.jobs.delete(number);
    }
    for (const node of named(this.nodeColumns, frame.nodes)) this.nodes.set(node.name, node);
    [this.time, this.policy, this.admission] = [frame.time, frame.policy, frame.admission];
    this.tell();
  }

  keep(job, end) {
    if (job?.started && job.grants.length) this.past.push({ number: job.number, name: job.name, array_index: job.array_index, user: job.user, start: job.started, end, grants: job.grants });
  }

  // All holdings so far, {user, start, end, grants}: those of /v1/holdings, those that ended since, and those of jobs that run.
  heldSoFar({ time, columns, holdings }) {
    const running = [...this.jobs.values()].filter((job) => job.started && job.grants.length);
    return [...named(columns, holdings), ...this.past.filter(({ end }) => end > time),
      ...running.map(({ user, started, grants }) => ({ user, start: started, end: now(), grants }))];
  }

  // `listener` is called at most once a drawn picture.
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell() {
    if (this.told) return;
    this.told = true;
    requestAnimationFrame(() => {
      this.told = false;
      performance.mark("update");
      for (const listener of this.listeners) listener();
      performance.measure("update the view", "update");
    });
  }
}
