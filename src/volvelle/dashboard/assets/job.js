// One job: why, what would help, how its forecast went, what it was guaranteed, its logs.

import { answer, explanation, planPicture, progressText } from "./answer.js";
import { ApiError, get, stream } from "./api.js";
import { forecastChart } from "./chart.js";
import { capital, counted, duration, h, jobId, moment, nameOf, now, number, reasonOf } from "./dom.js";
import { askForChange, changeJobs, declare, isOffered, sayError } from "./dialogs.js";
import { atRisk, finishText, guaranteeOf, queueLink, startOf } from "./queue.js";
import { asCommand, copiable, requestTable } from "./request.js";
import { UNDERTAKEN } from "./sentences.js";

const MAX_LOG = 400000;
const ACTIONS = { waiting: ["change", "hold", "cancel"], held: ["release", "change", "cancel"], running: ["requeue", "hold", "cancel"] };
const OVER = ["finished", "failed", "cancelled", "rejected"];

export function job(root, { cluster, session, path }) {
  const wanted = Number(path), stopped = new AbortController();
  const facts = h("dl", { class: "facts" }), buttons = h("div", { class: "tools" });
  const why = h("div"), chart = h("div"), log = h("pre", { class: "log", role: "log", tabIndex: 0, "aria-label": "Log" });
  const request = h("div");
  const follow = h("input", { type: "checkbox", checked: true });
  const shownId = jobId(wanted), title = h("h1", {}, `Job ${shownId}`), lead = h("p", { class: "lead" }), sub = h("span", { class: "about" }), plan = h("div");
  const card = (style, name, ...parts) => h("section", { class: `card ${style}` }, h("h2", {}, name), parts);
  const again = h("button", { type: "button", class: "small", onclick: () => explain() }, "Ask again"), asked = h("small"), sure = h("small");
  const own = [
    card("", session.reads ? "Why" : "Why, and what would help", why),
    card("", "How the forecast went", chart),
    session.reads ? null : card("", "Log", log), card("", "Request", request)].filter(Boolean);
  for (const part of own) part.hidden = true;
  own[0].firstChild.append(h("small", {}, asked, " ", again));
  log.previousSibling?.append(h("small", {}, h("label", {}, follow, " keep the end in sight")));
  root.append(h("div", { class: "crumb" }, h("a", { href: "#/queue" }, "Queue"), h("span", { "aria-hidden": "true" }, "/"), title, sub),
    h("div", { class: "top" }, lead, buttons), h("div", { class: "cards" }, h("section", { class: "card whole" }, h("h2", {}, "Plan", sure), plan),
      h("div", { class: "column most" }, own.slice(0, -1)), h("div", { class: "column rest" }, card("", "Facts", facts), own.at(-1))));
  let details = null, shownState = "", explained = false, past = null;

  const read = async () => {
    const row = cluster.jobs.get(wanted);
    if (session.run || (row && session.role !== "operator" && row.user !== session.user)) return draw(); // no more is told
    try {
      details = await get(`/v1/jobs/${wanted}`);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) return sayError(error);
    }
    if (stopped.signal.aborted) return undefined;
    if (details) {
      for (const part of own) part.hidden = false;
      showRequest(details.request);
      shownState = ""; // a row that came before it had no buttons
      // A job that comes and goes between two frames is in no row.
      if (!cluster.jobs.has(wanted) && !OVER.includes(details.state)) setTimeout(() => { if (!stopped.signal.aborted) read(); }, 1000);
    }
    return draw();
  };

  const typed = asCommand(), raw = session.reads ? "As JSON" : "As a job's file", file = copiable(raw), table = h("div");
  request.append(table, ...(session.reads ? [] : typed.parts), h("details", {}, h("summary", {}, raw), file.button, file.text));
  const showRequest = (asked) => {
    table.replaceChildren(requestTable(asked));
    file.text.textContent = JSON.stringify(asked, null, 2);
    if (!session.reads) typed.show(asked);
  };

  const explain = async () => {
    explained = true;
    asked.textContent = "asking";
    try {
      const [found, history] = await Promise.all([get(`/v1/jobs/${wanted}/why`), get(`/v1/jobs/${wanted}/forecasts`)]);
      past = history.points;
      const apply = (change) => (isOffered(change.request) ? h("button", { type: "button", onclick: () => declare(wanted, change.request).then(explain) }, "Declare it") : null);
      why.replaceChildren(...explanation(found, apply));
      asked.textContent = `asked ${moment(now())}`;
      drawPictures();
    } catch (error) {
      why.replaceChildren(h("p", { class: "note" }, error.message));
    }
  };

  const drawPictures = () => {
    const job = { ...details, ...cluster.jobs.get(wanted) };
    if (!job.submitted || !plan.clientWidth) return;
    plan.replaceChildren(planPicture(job, plan.clientWidth));
    const lines = [["told", "told", job.first_p50], ["guaranteed", "guarantee", guaranteeOf(job)]];
    if (past && chart.clientWidth) chart.replaceChildren(...forecastChart(past, lines, chart.clientWidth, job.ended ?? now()));
  };

  const draw = () => {
    const row = cluster.jobs.get(wanted), present = row ?? details;
    if (!present) {
      facts.replaceChildren(h("dt", {}, "Not here"), h("dd", {}, "There is no such job, or it is over and another user's."));
      return;
    }
    title.textContent = present.name ? `Job ${shownId} ${nameOf(present)}` : `Job ${shownId}`;
    facts.replaceChildren(...factsOf({ ...details, ...row }, details, session.titles).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
    const over = OVER.includes(present.state), [certain, expected] = answer({ ...details, ...row });
    lead.replaceChildren(certain, " ", h("span", {}, expected));
    sub.replaceChildren(h("span", { class: "chip", "data-state": present.state }, present.state), ...(atRisk({ ...details, ...row }) ? [h("span", { class: "chip", "data-state": "risk", title: guaranteeOf(present) ? UNDERTAKEN : null }, "at risk")] : []),
      h("a", { href: queueLink({ user: present.user }) }, present.user), `${counted(present.gpus, "GPU")}, submitted ${moment(present.submitted)}`);
    sure.textContent = row?.guessed ? "P90 is a guess until 20 jobs have finished" : "";
    drawPictures();
    if (present.state !== shownState) {
      const act = (action) => (action === "change" ? askForChange(wanted, details.request).then(explain) : changeJobs(action, [wanted]));
      buttons.replaceChildren(...(!details || over || session.reads ? [] : ACTIONS[present.state] ?? ["hold", "cancel"]).map((action) =>
        h("button", { type: "button", class: action === "cancel" ? "danger" : null, onclick: () => act(action) }, capital(action))));
      const changed = shownState !== "";
      shownState = present.state;
      if (changed) {
        explained = false;
        read();
      }
    }
    if (details && !explained) explain();
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

  const observer = new ResizeObserver(drawPictures);
  observer.observe(plan);
  read().then(() => { if (details && !session.reads) readLog(); });
  return { update: () => { if (cluster.jobs.has(wanted)) draw(); else if (details && !OVER.includes(shownState)) read(); }, close: () => { stopped.abort(); observer.disconnect(); } };
}

// What only its scheduler knows of a job. titles: that scheduler's words.
function siteFacts({ attached, started }, titles) {
  const start = attached.start ? `start ${moment(attached.start)}` : started || !titles.start ? "" : "no start";
  const named = ["account", "partition", "qos"].filter((name) => titles[name] && attached[name]);
  return [[capital(named.map((name) => titles[name]).join(", ")), named.map((name) => attached[name]).join(", ")],
    ["Its scheduler says", [attached.reason, start].filter(Boolean).join(", ")]];
}

// own: whether the rest of the page says why it waits, or how it ended.
function factsOf(job, own, titles) {
  const over = OVER.includes(job.state);
  const guarantee = guaranteeOf(job), attempts = Math.max(job.attempt, ...Object.values(job.ran_on ?? {})); // of one that waits, those before
  return [
    ["Because", own ? "" : reasonOf(job)],
    ["On", (job.grants ?? []).map(([node, gpus]) => `${node}: GPU ${gpus.join(", ")}`).join("; ")],
    ...(job.attached ? siteFacts(job, titles) : []),
    ["Starts by (P90)", moment(job.attached?.start_p90)],
    [job.started || over ? "Started" : "Starts (P50)", startOf(job) || "not known yet"],
    over ? ["Ended", `${moment(job.ended)}, after ${duration(job.ended - job.submitted)}`] : ["Finishes (P50–P90)", finishText(job)],
    ["Told at submission", job.first_p50 ? `finish ${moment(job.first_p50)}` : "nothing"],
    ["Deadline", moment(job.due)],
    ["Guarantee", guarantee ? `by ${moment(guarantee)}` : job.guarantee ? `${job.guarantee.revoked ? `until ${moment(job.guarantee.revoked)}, then revoked` : "none"}: ${job.guarantee.reason}` : job.attached ? "" : "none asked for"],
    ["Attempts", [attempts || "none yet", job.preemptions ? `preempted ${job.preemptions === 1 ? "once" : `${number(job.preemptions)} times`}` : ""].filter(Boolean).join(", ")],
    ["Done", job.total_iterations ? `${number(job.iterations)} of ${number(job.total_iterations)} iterations` : progressText(job)],
  ].filter(([, text]) => text);
}
