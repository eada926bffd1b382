// What is to be said of a job first: a sentence, and the picture of its plan.

import { counted, duration, h, jobId, linked, moment, now, reasonOf, svg, tickLabel, ticks } from "./dom.js";
import { atRisk, finishText, guaranteeOf, neededBy, neededByText, overrun } from "./queue.js";
import { NO_NODE, NOT_ALL_TRIED } from "./sentences.js";

const WAITS = ["waiting", "held"];
const HEIGHT = 66, EDGE = 10, BAR = 24, TALL = 16;

const against = (ended, by, what) => (!by ? "" : Math.abs(ended - by) < 1 ? `just at ${what}` : ended > by ? `${duration(ended - by)} after ${what}` : `${duration(by - ended)} before ${what}`);

// [what is certain, what is expected]
export function answer(job) {
  const by = neededBy(job), what = guaranteeOf(job) ? "the end of its guarantee" : "its deadline";
  switch (job.state) {
    case "finished": return [`Finished ${moment(job.ended)}.`, by ? `${against(job.ended, by, what)}.` : job.first_p50 ? `${against(job.ended, job.first_p50, "the finish that was told at submission")}.` : ""];
    case "failed": case "cancelled": case "rejected": return [`${job.state[0].toUpperCase()}${job.state.slice(1)} ${moment(job.ended)}`, `after ${duration(job.ended - job.submitted)}.`];
    case "held": return ["Held until it is released.", ""];
    default:
  }
  const finish = job.predicted_p50 ? `Finishes ${finishText(job)}.` : "Its finish is not known yet.";
  const needed = by ? ` ${neededByText(job)}${atRisk(job) ? ": at risk" : ""}.` : "";
  if (job.grants?.length) return [finish, `${done(job)}${needed}`];
  return [job.predicted_start ? `Starts about ${moment(job.predicted_start)}.` : "Its start is not known yet.", `${finish}${needed}`];
}

// By its iterations, else by the time of its forecast; nobody knows the share of a job that has run longer than was believed.
export function progressOf(job) {
  if (job.progress !== null && job.progress !== undefined) return { share: job.progress, said: true };
  if (!job.started || !job.predicted_p50 || !job.grants?.length || overrun(job)) return null;
  return { share: Math.min(0.99, Math.max(0, (now() - job.started) / Math.max(1, job.predicted_p50 - job.started))), said: false };
}

export function progressText(job) {
  const progress = progressOf(job);
  return progress ? `${progress.said ? "" : "~"}${Math.round(100 * progress.share)} %` : "";
}

function done(job) {
  const progress = progressOf(job);
  if (!progress) return "";
  return progress.said ? `${Math.round(100 * progress.share)} % of its iterations are done.` : `About ${Math.round(100 * progress.share)} % of its time is over.`;
}

// Dots wait, solid ran, pale is expected to P50, a line goes on to P90, a tall tick is the guarantee, or else the deadline.
export function planPicture(job, width) {
  const time = now(), over = job.ended, start = job.started ?? (over || job.grants?.length ? job.first_started : null) ?? job.predicted_start, by = neededBy(job);
  const ends = [time, job.predicted_p50, job.predicted_p90, by, over].filter((each) => each && (each !== time || !over));
  const from = job.submitted, to = Math.max(...ends, from + 60);
  const x = (at) => EDGE + (Math.min(to, Math.max(from, at)) - from) / (to - from) * (width - 2 * EDGE), middle = BAR + TALL / 2;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart load plan", role: "img", "aria-label": `Submitted ${moment(from)}. ${answer(job).join(" ")}` });
  const path = (d, style) => picture.append(svg("path", { d, class: style }));
  const bar = (a, b, style) => picture.append(svg("rect", { x: x(a), y: BAR, width: Math.max(1, x(b) - x(a)), height: TALL, class: style }));
  const text = (content, at, up, style) => picture.append(svg("text", { x: at, y: up, class: style }, content));
  for (const at of ticks(from, to, width / 110)) {
    path(`M${x(at)} ${BAR - 6}V${BAR + TALL + 6}`, "grid");
    text(tickLabel(at), x(at), HEIGHT - 6, x(at) < 30 ? "" : x(at) > width - 30 ? "end" : "middle");
  }
  if (start) path(`M${x(from)} ${middle}H${x(start)}`, "dots"); else path(`M${x(from)} ${middle}H${x(over ?? time)}`, "dots");
  if (over && start) bar(start, over, `ran ${job.state}`);
  if (!over && job.grants?.length) bar(start, time, "ran");
  if (!over && start && job.predicted_p50) {
    bar(Math.max(start, job.grants?.length ? time : start), job.predicted_p50, "pale");
    if (job.predicted_p90 > job.predicted_p50) path(`M${x(job.predicted_p50)} ${middle}H${x(job.predicted_p90)}M${x(job.predicted_p90)} ${middle - 5}v10`, "whisker");
  }
  if (by) {
    path(`M${x(by)} ${BAR - 8}V${BAR + TALL + 8}`, "now");
    text(guaranteeOf(job) ? "guaranteed" : "deadline", x(by), BAR - 12, x(by) > width - 70 ? "end" : "middle");
  }
  if (!over) {
    const beside = by && Math.abs(x(by) - x(time)) < 60; // where its name stands
    path(`M${x(time)} ${BAR - 6}V${BAR + TALL + 6}`, "now");
    if (!beside) text("now", x(time), BAR - 10, x(time) > width - 30 ? "end strong" : x(time) < 30 ? "strong" : "middle strong");
  }
  return picture;
}

// What would help, against what is expected now; `apply` declares anew what a job that waits may.
export function explanation(found, apply) {
  const ahead = found.ahead.slice(0, 20).flatMap((each) => [h("a", { href: `#/job/${each}` }, jobId(each)), " "]);
  const more = found.ahead.length > 20 ? `and ${found.ahead.length - 20} more` : "";
  const rows = found.changes.map((change) => h("tr", {}, h("th", { scope: "row" }, `With ${change.what}`), h("td", {}, moment(change.start)), h("td", {}, moment(change.p50)), h("td", {}, change.sooner ? `${duration(change.sooner)} sooner` : ""), h("td", {}, apply(change))));
  const reason = reasonOf({ state: found.job.state, reason: found.reason }) || `it is ${found.job.state}`;
  const after = found.after.filter((one) => !new RegExp(`\\bjobs? .*\\b${one}\\b`).test(reason));
  return [
    h("p", {}, linked(reason), after.length ? [" ", linked(`it waits for the ${after.length > 1 ? "ends of jobs" : "end of job"} ${after.join(", ")}`)] : null),
    ...found.notices.map((said) => h("p", {}, linked(said))),
    found.ahead.length ? h("p", {}, `${counted(found.ahead.length, "job")} ${found.ahead.length === 1 ? "waits" : "wait"} before it: `, ahead, more) : null,
    rows.length ? h("div", { class: "table", tabIndex: 0, role: "region", "aria-label": "What would help" }, h("table", {},
      h("thead", {}, h("tr", {}, ["What would help", "Start", "Finish", "", ""].map((name) => (name ? h("th", { scope: "col" }, name) : h("td"))))), h("tbody", {}, rows))) : null,
    !rows.length && found.complete && !found.job.attached && WAITS.includes(found.job.state) && !found.reason.startsWith(NO_NODE) ? h("p", {}, "No change that was tried would let it finish sooner.") : null,
    found.complete ? null : h("p", { class: "note" }, NOT_ALL_TRIED),
  ].filter(Boolean);
}
