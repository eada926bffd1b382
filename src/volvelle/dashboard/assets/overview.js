// The cluster at a glance: a sentence first, then what it goes by.

import { get, named } from "./api.js";
import { counted, duration, exact, h, jobId, moment, nameOf, now, number, reasonOf, sentence, svg } from "./dom.js";
import { gpuColumns, gpuMap, gpusByType } from "./gpus.js";
import { loadChart } from "./load.js";
import { atRisk, expectedText, finishSpan, lateBy, neededBy, neededByText, overrun, overrunText, queueLink } from "./queue.js";
import { shareBar } from "./shares.js";

const READ_SECONDS = 15, OVERRUN = 1.5, LISTED = 6, AT_RISK = 4, FEW_COLUMNS = 24;
const link = (href, ...text) => h("a", { href }, text);
const jobLink = (job) => link(`#/job/${job.number}`, h("span", { class: "quiet" }, jobId(job.number)), ` ${nameOf(job)}`);

export function overview(root, { cluster, session, go }) {
  const lead = h("p", { class: "lead" }), sub = h("p", { class: "sub" }), note = h("p", { class: "note" });
  const parts = Object.fromEntries(["map", "load", "look", "starting", "finishing", "shares", "hold"].map((name) => [name, h("div")]));
  const card = (style, title, part, small = "") => h("section", { class: `card ${style}` }, h("h2", {}, title, h("small", {}, small)), part);
  const map = gpuMap(parts.map, cluster, go), few = gpuColumns(cluster.nodes.values()) <= FEW_COLUMNS;
  const holders = card(few ? "" : "whole", "Who holds the GPUs", parts.map), size = few ? "" : "third";
  root.append(h("h1", {}, "Overview"), lead, sub,
    h("div", { class: "cards" }, few ? null : holders, card("most fills", "Load", [parts.load, note], "past solid, dashed to P50, pale to P90"),
      h("div", { class: "column rest" }, card("first", "Needs a look", parts.look), card("", "Do forecasts hold?", parts.hold, "P90"))),
    h("div", { class: "cards ragged" }, few ? holders : null, card(size, "Starting next", parts.starting, "P50, GPUs"), card(size, "Finishing next", parts.finishing, "P50–P90"),
      card(size, "Shares", parts.shares, "GPUs in use")));
  let read = { load: null, failed: [], pools: [], health: {} }, readAt = -Infinity, closed = false;
  const drawLoad = () => {
    if (!read.load || !parts.load.clientWidth) return;
    const [chart, said] = loadChart(named(read.load.columns, read.load.points), cluster, parts.load.clientWidth, parts.load.clientHeight);
    parts.load.replaceChildren(chart);
    note.textContent = said;
  };
  for (const part of [parts.load, parts.look]) part.append(h("p", { class: "note" }, "Reading …"));
  const drawLook = () => { if (read.load) parts.look.replaceChildren(needsALook([...cluster.jobs.values()], cluster, read)); };
  const draw = () => {
    const jobs = [...cluster.jobs.values()];
    lead.replaceChildren(...leading(jobs, cluster));
    sub.replaceChildren(...counts(jobs, cluster, session.reads), ...idle(jobs, cluster));
    map.draw();
    drawLoad();
    drawLook();
    parts.starting.replaceChildren(list(first(jobs.filter((job) => job.state === "waiting"), (job) => job.predicted_start), (job) => [exact(Math.max(job.predicted_start, now())), number(job.gpus)], "No start is forecast."));
    parts.finishing.replaceChildren(list(first(jobs.filter((job) => job.grants.length), (job) => job.predicted_p50), (job) => { const [p50, p90] = finishSpan(job); return [p50, p90 && `–${p90}`]; }, "No finish is forecast."));
    parts.shares.replaceChildren(shareBars(jobs, cluster, read.pools));
    parts.hold.replaceChildren(...forecastsHold(read, session.reads));
    if (session.run || performance.now() - readAt > READ_SECONDS * 1000) refresh();
  };
  const refresh = async () => {
    readAt = performance.now();
    const known = [get("/v1/load"), session.run ? { jobs: [] } : get(`/v1/jobs?over=true&state=failed&limit=${LISTED}`), session.run ? { pools: [] } : get("/v1/shares"), session.run ? {} : get("/v1/told"), session.role === "operator" && !session.reads ? get("/healthz") : {}];
    const [load, failed, shares, told, health] = await Promise.all(known).catch(() => []); // the next time, then
    if (closed || !load) return;
    read = { load, failed: failed.jobs, pools: shares.pools, told, health };
    drawLoad();
    drawLook();
    parts.shares.replaceChildren(shareBars([...cluster.jobs.values()], cluster, read.pools));
    parts.hold.replaceChildren(...forecastsHold(read, session.reads));
  };
  const observer = new ResizeObserver(drawLoad);
  observer.observe(parts.load);
  draw();
  return { update: draw, close: () => { closed = true; observer.disconnect(); map.close(); } };
}

// The `LISTED` of many with the least `time`: no need to sort them all.
function first(jobs, time) {
  const best = [];
  for (const job of jobs) {
    if (!time(job) || (best.length === LISTED && time(job) >= time(best.at(-1)))) continue;
    best.push(job);
    best.sort((a, b) => time(a) - time(b)).splice(LISTED);
  }
  return best;
}

function leading(jobs, cluster) {
  const types = gpusByType(cluster.nodes.values()), sum = (part) => types.reduce((total, type) => total + type[part], 0);
  const waiting = jobs.filter((job) => job.state === "waiting"), known = waiting.filter((job) => job.predicted_start).sort((a, b) => a.predicted_start - b.predicted_start);
  const at = (job) => (job.predicted_start <= now() ? "at any moment" : `at ${moment(job.predicted_start)}`);
  const others = known.length < waiting.length ? [`; ${number(waiting.length - known.length)} of the `, link(queueLink({ state: "waiting" }), `${number(waiting.length)} waiting`), " have no forecast yet."]
    : waiting.length > 1 ? [", the last of the ", link(queueLink({ state: "waiting" }), `${number(waiting.length)} waiting`), ` ${at(known.at(-1))}.`] : ["."];
  const next = !waiting.length ? ["No job waits."] : !known.length ? [link(queueLink({ state: "waiting" }), `${counted(waiting.length, "job")} wait${waiting.length === 1 ? "s" : ""}`), "; no start is forecast yet."]
    : [link(`#/job/${known[0].number}`, "The next job"), ` starts ${at(known[0])}`, ...others];
  return [link("#/timeline", `${number(sum("held"))} of ${number(sum("gpus"))} GPUs`), " are in use. ", h("span", {}, next)];
}

const SAYS = { running: ["runs", "run"], starting: ["starts", "start"], stopping: ["is stopping", "are stopping"], waiting: ["waits", "wait"], held: ["is held", "are held"] };

function counts(jobs, cluster, reads) {
  const states = new Map();
  for (const job of jobs) states.set(job.state, (states.get(job.state) ?? 0) + 1);
  const said = Object.keys(SAYS).flatMap((state) => {
    const count = states.get(state) ?? 0;
    return count ? [[link(queueLink({ state }), `${counted(count, "job")} ${SAYS[state][count === 1 ? 0 : 1]}`)]] : [];
  });
  const risky = jobs.filter(atRisk).length;
  return [...said.flatMap((each, at) => (at ? [", ", ...each] : each)), said.length ? ". " : "No job is here; volvelle submit --gpus 1 -- python train.py brings one. ",
    ...(risky ? [link("#/queue?risk=yes", `${counted(risky, "job")} ${risky === 1 ? "is" : "are"} at risk of being late`), ". "] : []),
    reads ? `${reads} decides.` : `Policy ${cluster.policy}${cluster.admission === "accept-all" ? "" : `, admission ${cluster.admission}`}.`];
}

// GPUs that are free while jobs wait: what the next of these waits for.
function idle(jobs, cluster) {
  const free = gpusByType(cluster.nodes.values()).filter((type) => type.free), total = free.reduce((sum, type) => sum + type.free, 0);
  const [next] = first(jobs.filter((job) => job.state === "waiting" && job.predicted_start > now()), (job) => job.predicted_start);
  if (!total || !next) return [];
  const shapes = free.map((type) => `${type.type ? `${number(type.free)} ${type.type}` : counted(type.free, "GPU")}${cluster.unit === "cluster" ? "" : ` (at most ${number(Math.max(...type.nodes.map((node) => (node.state === "up" ? node.free : 0))))} on a ${cluster.unit})`}`);
  // A reason is of the last forecast: one that only counts free GPUs, or counts others than there are now, is left out.
  const reason = reasonOf(next), then = next.reason_free ?? null;
  const old = then !== null && (then < next.gpus || ![total, ...free.map((type) => type.free)].includes(then));
  return [` ${shapes.join(" and ")} ${total === 1 ? "is" : "are"} free; the next job, `, jobLink(next), `, ${(!old && reason) || `asks for ${counted(next.gpus, "GPU")}`}.`];
}

const list = (jobs, said, none) => (jobs.length
  ? h("ul", { class: "jobs" }, jobs.map((job) => [job, ...said(job)]).map(([job, time, rest]) =>
    h("li", {}, h("b", {}, time), h("span", { class: "name" }, jobLink(job)), h("span", { class: "quiet" }, rest))))
  : h("p", { class: "note" }, none));

// Of a run, which has no beliefs, by the P90 that was told.
const pastP90 = (job) => job.predicted_p90 && job.predicted_p90 < now() - 60;
const runsLate = (job) => job.grants.length && (overrun(job) >= OVERRUN || pastP90(job));
const isOut = (node) => node.state === "down" || node.state === "drained" || node.away;

// How many jobs and nodes need a look; jobs that failed are not among the rows.
export function needingALook(jobs, nodes) {
  let found = 0;
  for (const job of jobs) if (atRisk(job) || runsLate(job)) found += 1;
  for (const node of nodes) if (isOut(node)) found += 1;
  return found;
}

// What is wrong with the server, guarantees and deadlines at risk, jobs that run far longer than was believed or past their P90, jobs that failed of late, nodes out of use.
function needsALook(jobs, cluster, { failed, health }) {
  const time = now(), late = (by) => `${duration(by)} late`;
  const out = [...cluster.nodes.values()].filter(isOut);
  const found = [
    ...[health.problems, health.warnings].filter(Boolean).map((said) => ["server", "The server", "", sentence(said)]),
    ...first(jobs.filter(atRisk), (job) => neededBy(job)).slice(0, AT_RISK).map((job) => ["risk", jobLink(job), late(lateBy(job)), `${neededByText(job)}, ${expectedText(job)}.`]),
    ...first(jobs.filter((job) => runsLate(job) && !atRisk(job)), (job) => job.believed_end ?? job.predicted_p90).slice(0, 2).map((job) => ["late", jobLink(job), late(time - (overrun(job) ? job.believed_end : job.predicted_p90)), overrun(job) ? `It ${overrunText(job)}.` : "It runs past its P90."]),
    ...failed.filter((job) => job.ended > time - 86400).slice(0, 3).map((job) => ["failed", jobLink(job), moment(job.ended), sentence(reasonOf(job))]),
    ...(out.length ? [["out", link("#/nodes", `${counted(out.length, "node")} out of use or reach`), "", out.slice(0, 4).map((node) => `${node.name} is ${node.away || node.state}`).join(", ")]] : []),
  ];
  if (!found.length) return h("p", { class: "note" }, "Nothing: no guarantee or deadline is at risk, no job failed within a day, and no node is down, drained or out of reach.");
  const glyphs = { risk: ["\u25B2", "at risk"], late: ["\u25B2", "late"], server: ["\u25B2", "warning"], failed: ["\u2715", "failed"], out: ["\u25A0", "out of use"] };
  const risky = jobs.filter(atRisk).length;
  return h("div", {}, h("ul", { class: "jobs look" }, found.map(([kind, what, by, why]) => h("li", {},
    h("i", { class: kind, role: "img", "aria-label": glyphs[kind][1] }, glyphs[kind][0]), h("span", { class: "name" }, what), h("b", {}, by), why ? h("span", { class: "why" }, why) : null))), risky > AT_RISK ? h("p", { class: "note" }, link("#/queue?risk=yes", `All ${number(risky)} at risk`)) : null);
}

// What pools hold beside their quotas; without pools what users hold beside an even share.
function shareBars(jobs, cluster, pools) {
  const gpus = [...cluster.nodes.values()].reduce((sum, node) => sum + node.gpus, 0), users = new Map();
  for (const job of jobs) users.set(job.user, (users.get(job.user) ?? 0) + (job.grants.length && job.started ? job.gpus : 0));
  const rows = pools.length ? pools.map((pool) => [pool.pool, pool.held_gpus, pool.quota, "#/shares"])
    : [...users].sort((a, b) => b[1] - a[1]).slice(0, LISTED).map(([user, held]) => [user, held, gpus / users.size, queueLink({ user })]);
  if (!rows.length) return h("p", { class: "note" }, "Nobody has a job here.");
  const most = Math.max(1, ...rows.flatMap((row) => [row[1], row[2]]));
  return h("div", {}, h("ul", { class: "jobs" }, rows.map(([name, held, mark, href]) => h("li", {}, h("span", { class: "name" }, link(href, name || "nobody")), shareBar(held, mark, most), h("b", {}, number(held))))),
    h("p", { class: "note" }, pools.length ? "Mark: the quota; beyond it borrowed." : "Mark: an even share."));
}

function forecastsHold({ load, told }, reads) {
  if (!load) return [h("p", { class: "note" }, "Reading …")];
  // A server's own jobs: those of before its start count too. Else what was seen since then.
  const [, jobs, , p90] = (!reads && told?.classes?.[0]) || [], judged = jobs ?? load.p90_held + load.p90_missed;
  if (!judged) return [h("p", { class: "note" }, reads ? "Not known yet: no start that was told has come." : "Not known yet: no job that was told a P90 has finished. P90 is a guess until 20 jobs have finished.")];
  const share = jobs ? p90 / 100 : load.p90_held / judged;
  return [h("p", {}, h("b", { class: "big" }, `${Math.round(100 * share)} %`), reads ? " of told starts came by their P90; 90 % is the aim." : " ended by the P90 they were told; 90 % is the aim."),
    svg("svg", { viewBox: "0 0 200 14", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" }, svg("rect", { width: 200, height: 14, class: "track" }),
      svg("rect", { width: 200 * share, height: 14, class: "held" }), svg("rect", { x: 179, width: 2, height: 14, class: "mark" })),
    h("p", { class: "note" }, reads ? told.sentence : [link("#/history", jobs ? "The latest finished jobs" : counted(judged, "job")), jobs ? `, 1,000 at most. ${told.sentence}` : " judged."])];
}
