// One job: why, what would help, how its forecast went, what it was promised, its logs.

import { ApiError, get, stream } from "./api.js";
import { forecastChart } from "./chart.js";
import { duration, h, moment, number } from "./dom.js";
import { changeJobs, sayError } from "./dialogs.js";
import { finishText, startOf } from "./queue.js";

const MAX_LOG = 400000;
const OVER = ["finished", "failed", "cancelled", "rejected"];

export function job(root, { cluster, session, path }) {
  const wanted = Number(path), stopped = new AbortController();
  const facts = h("dl", { class: "facts" }), buttons = h("div", { class: "controls" });
  const why = h("div"), chart = h("div"), log = h("pre", { class: "log", role: "log", tabIndex: 0, "aria-label": "Log" });
  const request = h("pre", { class: "request", role: "region", tabIndex: 0, "aria-label": "Request" });
  const follow = h("input", { type: "checkbox", checked: true });
  const title = h("h1", {}, `Job ${wanted}`), own = h("div", { hidden: true });
  root.append(title, buttons, facts, own);
  own.append(
    h("h2", {}, "Why, and what would help"), why, h("button", { type: "button", onclick: () => explain() }, "Ask again"),
    h("h2", {}, "Forecast over time"), chart,
    h("h2", {}, "Log"), h("label", {}, follow, " keep the end in sight"), log,
    h("h2", {}, "Request"), request);
  let details = null, shownState = "", asked = false;

  const read = async () => {
    if (session.run) return draw();
    try {
      details = await get(`/v1/jobs/${wanted}`);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) return sayError(error);
    }
    if (stopped.signal.aborted) return undefined;
    if (details) {
      own.hidden = false;
      request.textContent = JSON.stringify(details.request, null, 2);
    }
    return draw();
  };

  const explain = async () => {
    asked = true;
    try {
      const [found, past] = await Promise.all([get(`/v1/jobs/${wanted}/why`), get(`/v1/jobs/${wanted}/forecasts`)]);
      why.replaceChildren(...explanation(found));
      chart.replaceChildren(forecastChart(past.points, details.promised));
    } catch (error) {
      why.replaceChildren(h("p", { class: "note" }, error.message));
    }
  };

  const draw = () => {
    const row = cluster.jobs.get(wanted), present = row ?? details;
    if (!present) {
      facts.replaceChildren(h("dt", {}, "Not here"), h("dd", {}, "There is no such job, or it is over and another user's."));
      return;
    }
    title.textContent = present.name ? `Job ${wanted}: ${present.name}` : `Job ${wanted}`;
    facts.replaceChildren(...factsOf({ ...details, ...row }).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
    const over = OVER.includes(present.state);
    const actions = !details || over ? [] : present.state === "held" ? ["release", "cancel"] : ["hold", "cancel"];
    if (present.state !== shownState) {
      buttons.replaceChildren(...actions.map((action) =>
        h("button", { type: "button", onclick: () => changeJobs(action, [wanted]) }, action[0].toUpperCase() + action.slice(1))));
      const changed = shownState !== "";
      shownState = present.state;
      if (changed) {
        asked = false;
        read();
      }
    }
    if (details && !asked) explain();
  };

  const readLog = async () => {
    try {
      for await (const text of stream(`/v1/jobs/${wanted}/logs?follow=true`, stopped.signal)) {
        log.append(text);
        if (log.textContent.length > MAX_LOG) log.textContent = log.textContent.slice(-MAX_LOG / 2);
        if (follow.checked) log.scrollTop = log.scrollHeight;
      }
    } catch (error) {
      if (!stopped.signal.aborted && error.status !== 404) log.append(`\n${error.message}\n`);
    }
  };

  read().then(() => { if (details) readLog(); });
  return { update: () => { if (cluster.jobs.has(wanted) || (details && !OVER.includes(details.state))) cluster.jobs.has(wanted) ? draw() : read(); }, close: () => stopped.abort() };
}

function factsOf(job) {
  const over = OVER.includes(job.state);
  const guarantee = job.guarantee?.finish_by ?? job.guaranteed;
  return [
    ["State", job.reason ? `${job.state}: ${job.reason}` : job.state],
    ["User", job.user],
    ["GPUs", `${number(job.gpus)}${job.grants?.length ? `: ${job.grants.map(([node, gpus]) => `${node} [${gpus.join(", ")}]`).join(", ")}` : ""}`],
    ["Submitted", moment(job.submitted)],
    [job.started || over ? "Started" : "Starts about", startOf(job) || "not known yet"],
    over ? ["Ended", `${moment(job.ended)}, after ${duration(job.ended - job.submitted)}`] : ["Finishes (P50–P90)", finishText(job)],
    ["Told at submission", job.promised ? `finish ${moment(job.promised)}` : "nothing"],
    ["Guarantee", guarantee ? `by ${moment(guarantee)}` : job.guarantee ? `none: ${job.guarantee.reason}` : "none asked for"],
    ["Attempts", `${job.attempt}, preempted ${job.preemptions} times`],
    ["Done", job.total_iterations ? `${number(job.iterations)} of ${number(job.total_iterations)} iterations` : job.progress ? `${Math.round(100 * job.progress)} %` : ""],
  ].filter(([, text]) => text);
}

function explanation(found) {
  const ahead = found.ahead.slice(0, 20).flatMap((number) => [h("a", { href: `#/job/${number}` }, String(number)), " "]);
  const more = found.ahead.length > 20 ? `and ${number(found.ahead.length - 20)} more` : "";
  return [
    h("p", {}, found.reason || `It is ${found.job.state}.`),
    found.ahead.length ? h("p", {}, "Expected to start before it: ", ahead, more) : null,
    found.after !== null && found.after !== undefined ? h("p", {}, "It waits for the end of job ", h("a", { href: `#/job/${found.after}` }, String(found.after)), ".") : null,
    found.changes.length ? h("ul", {}, found.changes.map((change) =>
      h("li", {}, `With ${change.what} it would start ${moment(change.start)}${change.p50 ? ` and finish ${moment(change.p50)}` : ""}.`))) : null,
    found.complete ? null : h("p", { class: "note" }, "Not every change that could help was tried: there was no time."),
  ].filter(Boolean);
}
