// GPUs in use and jobs waiting: what was, and what the forecasts of the jobs that are here come to.

import { axisEnd, moment, now, number, svg, tickLabel, ticks } from "./dom.js";

const LEFT = 48, RIGHT = 12, TOP = 34, UPPER = 0.63, BETWEEN = 30, FOOT = 24;
const DAY = 86400;

// Steps [time, value] of a sum of changes [time, by] from `start` on.
function summed(start, changes, from, most = Infinity) {
  let value = start;
  const steps = [[from, Math.min(most, start)]];
  for (const [time, by] of changes.sort((a, b) => a[0] - b[0])) {
    value += by;
    if (steps.at(-1)[0] === time) steps.pop();
    steps.push([time, Math.min(most, value)]);
  }
  return steps;
}

// What the forecasts come to: GPUs in use if all end at their P50, and at their P90; jobs that wait. `unknown`: jobs
// without a forecast, which stay as they are.
export function outlook(jobs, gpus, time) {
  const p50 = [], p90 = [], starts = [];
  let held = 0, waiting = 0, unknown = 0;
  for (const job of jobs) {
    const holds = job.grants.length > 0;
    if (holds) held += job.gpus;
    if (job.state === "waiting") waiting += 1;
    if (!holds && job.state !== "waiting") continue;
    if (!job.predicted_p50 || !(holds || job.predicted_start)) { unknown += 1; continue; }
    const start = holds ? time : Math.max(time, job.predicted_start);
    if (!holds) { p50.push([start, job.gpus]); p90.push([start, job.gpus]); starts.push([start, -1]); }
    p50.push([Math.max(start, job.predicted_p50), -job.gpus]);
    p90.push([Math.max(start, job.predicted_p90 ?? job.predicted_p50), -job.gpus]);
  }
  const last = axisEnd(p90.map(([at]) => at), time);
  const step = Math.max(1, (last - time) / 400); // an end and the start that it lets in are one change
  for (const changes of [p50, p90, starts]) for (const change of changes) change[0] = time + Math.round((change[0] - time) / step) * step;
  return { p50: summed(held, p50, time, gpus), p90: summed(held, p90, time, gpus), waiting: summed(waiting, starts, time), now: { held, waiting }, unknown, last };
}

// What users held from `from` on, one on another: [[user, steps of its upper edge], ...], the uppermost first; those that
// `colors` lacks are "". spans: {user, start, end, grants}. Times are rounded to `step`.
function stacked(spans, colors, from, step, most) {
  const users = [...colors.keys(), ""], level = new Map(users.map((user, at) => [user, at])), changes = [];
  const rounded = (at) => from + Math.round((Math.max(from, at) - from) / step) * step;
  for (const span of spans) {
    const gpus = gpusOf(span), at = level.get(span.user) ?? users.length - 1;
    if (span.end > from) changes.push([rounded(span.start), gpus, at], [rounded(span.end), -gpus, at]);
  }
  return users.map((user, at) => [user, summed(0, changes.filter(([, , of]) => of <= at), from, most)]).reverse();
}

// GPUs of a holding.
export const gpusOf = ({ grants }) => grants.reduce((sum, [, gpus]) => sum + gpus.length, 0);

const valueAt = (steps, time) => {
  let found = null;
  for (const [at, value] of steps) { if (at > time) break; found = value; }
  return found;
};

// The chart, and a note on it. past: rows of /v1/load. held: {spans, colors}, holdings and the series of users: then whose the
// GPUs were until now, and nothing that is predicted.
export function loadChart(past, cluster, width, height, held = null) {
  const time = now(), gpus = [...cluster.nodes.values()].reduce((sum, node) => sum + node.gpus, 0);
  const coming = outlook(cluster.jobs.values(), gpus, time);
  const begun = (held?.spans ?? []).reduce((first, { start }) => Math.min(first, start), past[0]?.time ?? time);
  const from = Math.max(time - DAY, Math.min(begun, time - 300)), to = held ? time : Math.min(time + DAY, Math.max(coming.last, time + 300));
  const x = (at) => LEFT + (Math.min(to, Math.max(from, at)) - from) / (to - from) * (width - LEFT - RIGHT);
  const upper = Math.round(UPPER * (height - TOP - BETWEEN - FOOT)), second = TOP + upper + BETWEEN, lower = height - FOOT - second;
  const before = (column) => { const rows = past.filter((row) => row.time <= time).map((row) => [row.time, row[column]]); return [...rows.filter(([at]) => at < from).slice(-1), ...rows.filter(([at]) => at >= from)]; };
  const used = before("held"), waited = before("waiting");
  const users = held ? stacked(held.spans, held.colors, from, (to - from) / width, gpus) : [];
  const most = 2 * Math.ceil(Math.max(1, coming.now.waiting, ...waited.map(([, value]) => value), ...coming.waiting.map(([, value]) => value)) / 2); // its half is a number of jobs
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart load", role: "img" });
  const text = (content, at, up, style = "") => svg("text", { x: at, y: up, class: style }, content);
  const path = (d, style) => chart.append(svg("path", { d, class: style }));
  const stepped = (steps, y, end) => steps.map(([at, value], place) => `${place ? "H" : "M"}${x(at).toFixed(1)}${place ? "V" : " "}${y(value).toFixed(1)}`).join("") + `H${x(end).toFixed(1)}`;
  chart.append(svg("rect", { x: x(time), y: TOP, width: Math.max(0, width - RIGHT - x(time)), height: height - TOP - FOOT, class: "future" }));
  const panel = (top, tall, high, title, was, value, after, { band = null, layers = [], kind = "" }) => {
    const y = (value) => top + tall - value / Math.max(1, high) * tall;
    for (const value of high > 1 ? [0, high / 2, high] : [0, high]) {
      path(`M${LEFT} ${y(value)}H${width - RIGHT}`, "grid");
      chart.append(text(number(Math.round(value)), LEFT - 6, y(value) + 4, "end"));
    }
    chart.append(x(time) < width / 2 ? text(title, width - RIGHT, top - 8, "end") : text(title, LEFT, top - 8)); // beside now
    if (layers.length) {
      for (const [user, steps] of layers) path(`${stepped(steps, y, time)}V${y(0)}H${x(from)}Z`, held.colors.get(user) ?? "held");
    } else if (was.length) {
      path(`${stepped(was, y, time)}V${y(0)}H${x(was[0][0]).toFixed(1)}Z`, `area ${kind}`);
      path(stepped(was, y, time), `was ${kind}`);
    }
    if (band) path(`${stepped(band, y, to)}V${y(0)}H${x(time)}ZM${x(time)} ${y(0)}${stepped(after, y, to).replace("M", "L")}V${y(0)}Z`, "band");
    path(stepped(after, y, to), `ahead ${kind}`);
    // The name of the value now, before what starts and ends at once, on the side that has room.
    chart.append(svg("circle", { cx: x(time), cy: y(value), r: 3.5, class: `dot ${kind}` }),
      text(number(value), x(time) + (x(time) > LEFT + 60 ? -8 : 8), y(value) + (y(value) < top + 20 ? 16 : -7), x(time) > LEFT + 60 ? "end strong" : "strong"));
  };
  panel(TOP, upper, gpus, "GPUs in use", used, Math.min(gpus, coming.now.held), coming.p50, { band: coming.p90, layers: users });
  panel(second, lower, most, "Jobs waiting", waited, coming.now.waiting, coming.waiting, { kind: "waits" });
  for (const at of ticks(from, to, (width - LEFT) / 90)) {
    path(`M${x(at)} ${TOP}V${TOP + upper}M${x(at)} ${second}V${second + lower}`, "grid");
    chart.append(text(tickLabel(at), x(at), height - 6, x(at) > width - 30 ? "end" : "middle"));
  }
  path(`M${x(time)} 16V${second + lower}`, "now");
  chart.append(text(`now ${moment(time)}`, x(time), 11, x(time) > width - 60 ? "end strong" : "middle strong"));
  const rule = svg("path", { class: "grid strong" });
  chart.append(rule);
  const values = (at) => (at <= time ? [valueAt(used, at), valueAt(used, at), valueAt(waited, at)] : [valueAt(coming.p50, at), valueAt(coming.p90, at), valueAt(coming.waiting, at)]);
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect(), at = from + (to - from) * Math.min(1, Math.max(0, ((event.clientX - box.left) / box.width * width - LEFT) / (width - LEFT - RIGHT)));
    const [low, high, waiting] = values(at);
    rule.setAttribute("d", `M${x(at)} ${TOP}V${second + lower}`);
    if (low === null) return hideTip();
    const whose = users.map(([user, steps], level) => [user || "others", valueAt(steps, at) - valueAt(users[level + 1]?.[1] ?? [], at)]);
    const said = whose.filter(([, count]) => count).map(([user, count]) => `\n${number(count)} ${user}`).join("");
    return showTip(`${moment(at)}${at > time ? ", predicted" : ""}\n${low === high ? number(low) : `${number(Math.min(low, high))} to ${number(Math.max(low, high))}`} of ${number(gpus)} GPUs in use${said}\n${number(waiting)} waiting`, event);
  });
  chart.addEventListener("pointerleave", () => { hideTip(); rule.removeAttribute("d"); });
  chart.setAttribute("aria-label", `GPUs in use and jobs waiting from ${moment(from)} to ${moment(to)}: now ${number(coming.now.held)} of ${number(gpus)} GPUs, ${number(coming.now.waiting)} waiting.`);
  return [chart, `The jobs that are here, without later ones.${coming.unknown ? ` ${number(coming.unknown)} without a forecast ${coming.unknown === 1 ? "stays as it is" : "stay as they are"}.` : ""}`];
}
