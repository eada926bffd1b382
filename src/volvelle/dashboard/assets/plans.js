// What is to become of the jobs of a table, as bars on one axis of time: dots wait, solid ran, pale is expected to P50, a
// line goes on to P90, a tall tick is the guarantee or the deadline. What ends beyond the axis has no end there.

import { axisEnd, h, now, svg, tickLabel, ticks } from "./dom.js";
import { atRisk, neededBy } from "./queue.js";

const WIDE = 1000, TALL = 16, MIDDLE = TALL / 2, AHEAD = 2 * 86400, LEAST = 600, PAST_SHARE = 0.2;

// The axis of many jobs: now, and what is expected (P50) of nearly all within two days; a fifth at most is the past.
export function axisOf(jobs) {
  const time = now(), ends = [];
  let from = time;
  for (const job of jobs) {
    if (job.started && job.started < from) from = job.started;
    if (job.predicted_p50 > time) ends.push(job.predicted_p50);
  }
  const to = Math.max(time + LEAST, Math.min(time + AHEAD, time + 1.1 * (axisEnd(ends, time) - time)));
  const ahead = to - time, past = Math.min(time - from, ahead * PAST_SHARE / (1 - PAST_SHARE));
  return { time, from: time - past, to };
}

const share = ({ from, to }, at) => Math.min(1, Math.max(0, (at - from) / (to - from)));

// The head of the column: now, and some times; never two over each other.
export function axisHead(axis) {
  const mark = (at, text, style) => {
    const found = h("span", { class: style }, text);
    found.style.left = `${Math.round(400 * share(axis, at)) / 4}%`;
    return found;
  };
  const apart = (at) => share(axis, at) - share(axis, axis.time) > 0.3 && share(axis, at) < 0.93;
  return h("span", { class: "axis" }, mark(axis.time, "now", "is-now"), ticks(axis.time, axis.to, 2.5).filter(apart).map((at) => mark(at, tickLabel(at), "")));
}

// What the bar of a job shows, at the grain of its pixels: where it differs it is drawn anew.
export function planKey(job, axis) {
  const times = [job.started, job.predicted_start, job.predicted_p50, job.predicted_p90, neededBy(job), axis.time];
  return times.map((at) => (at ? Math.round(400 * share(axis, at)) : "")).join(" ") + job.state + atRisk(job) + job.guessed;
}

export function planBar(job, axis) {
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", class: `bar plan-bar ${atRisk(job) ? "late" : job.grants.length ? "" : "waits"}${job.guessed ? " guess" : ""}`, "aria-hidden": "true" });
  const x = (at) => Math.round(WIDE * share(axis, at)), path = (d, style) => picture.append(svg("path", { d, class: style }));
  const bar = (from, to, style) => picture.append(svg("rect", { x: x(from), y: 3, width: Math.max(4, x(to) - x(from)), height: TALL - 6, class: style }));
  const { time } = axis, holds = job.grants.length > 0, start = holds ? time : job.predicted_start && Math.max(time, job.predicted_start);
  if (holds && job.started) bar(job.started, time, "ran");
  if (!holds) path(`M${x(time)} ${MIDDLE}H${x(start || axis.to)}`, "dots");
  if (start && job.predicted_p50 > start) bar(start, job.predicted_p50, "pale");
  if (start && job.predicted_p90 > job.predicted_p50) path(`M${x(Math.max(start, job.predicted_p50))} ${MIDDLE}H${x(job.predicted_p90)}${job.predicted_p90 > axis.to ? "" : `M${x(job.predicted_p90)} 4V12`}`, "whisker");
  if (job.predicted_p50 > axis.to) path(`M${WIDE - 12} 3L${WIDE} ${MIDDLE}L${WIDE - 12} ${TALL - 3}`, "whisker");
  if (neededBy(job)) path(`M${x(neededBy(job))} 0V${TALL}`, "mark-line");
  path(`M${x(time)} 0V${TALL}`, "now");
  return picture;
}
