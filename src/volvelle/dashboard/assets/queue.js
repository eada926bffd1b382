// The queue: filters in the address, columns and order remembered by the browser.

import { progressOf, progressText } from "./answer.js";
import { capital, counted, h, jobId, moment, nameOf, now, number, span, top } from "./dom.js";
import { changeJobs } from "./dialogs.js";
import { axisHead, axisOf, planBar, planKey } from "./plans.js";
import { Table } from "./table.js";


// A start that was foreseen and has not come is still to come.
export const startOf = (job) => moment(job.started ?? (job.predicted_start && Math.max(job.predicted_start, now())));

// Seconds by which it, and its finish with it, starts later than foreseen so far.
const overdue = (job) => (job.state === "waiting" && job.predicted_start ? Math.max(now() - job.predicted_start, 0) : 0);

// ["16:30", "16:50"]: P50 and P90, no earlier than now; the second is empty where it is not known or the same.
export function finishSpan(job) {
  const [from, to] = [job.predicted_p50, job.predicted_p90 || job.predicted_p50].map((seconds) => Math.max(seconds + overdue(job), now()));
  return span(from, to);
}

// How many times as long as was believed of it a job has run; 0 where it has not run longer.
export const overrun = ({ started, believed_end: end }) => (started && end > started && now() > end ? (now() - started) / (end - started) : 0);
export const overrunText = (job) => `has run ${overrun(job).toFixed(1)} times what was believed`;

// "16:30–16:50", "not known yet".
export function finishText(job) {
  if (!job.predicted_p50) return "not known yet";
  const [p50, p90] = finishSpan(job), late = overrun(job) ? `, ${overrunText(job)}` : job.predicted_p50 + overdue(job) < now() ? ", longer than expected" : "";
  return `${p50}${!job.predicted_p90 ? " (P50)" : p90 && `–${p90}`}${late}`;
}

// What a job is held to: its P90, but while that is a guess its P50, as in notifications.
const expected = (job) => (job.guessed ? job.predicted_p50 : job.predicted_p90 ?? job.predicted_p50) + overdue(job);
export const expectedText = (job) => `${job.guessed ? "P50" : "P90"} ${moment(expected(job))}`;
export const lateBy = (job) => expected(job) - neededBy(job);

// Whether it may miss its guarantee, or without one its deadline.
export const atRisk = (job) => Boolean(neededBy(job) && expected(job) > neededBy(job));

export const guaranteeOf = (job) => job.guarantee?.finish_by ?? job.guaranteed;

export const neededBy = (job) => guaranteeOf(job) ?? job.due;

export const neededByText = (job) => `${guaranteeOf(job) ? "Guaranteed by" : "Deadline"} ${moment(neededBy(job))}`;

export const jobColumns = [
  { name: "number", title: "Job", value: (job) => job.number, text: (job) => jobId(job.number), link: (job) => `#/job/${job.number}`, plain: true },
  { name: "name", title: "Name", value: nameOf, link: (job) => `#/job/${job.number}`, wide: true, plain: true, optional: true },
  { name: "user", title: "User", value: (job) => job.user, plain: true },
  { name: "gpus", title: "GPUs", value: (job) => job.gpus, number: true },
  { name: "state", title: "State", value: (job) => job.state, state: true, plain: true },
  { name: "submitted", time: true, title: "Submitted", value: (job) => job.submitted, text: (job) => moment(job.submitted) },
];

// The axis that the plans of all rows have in common.
let axis = null;

const columns = [
  ...jobColumns,
  { name: "plan", title: "Plan", text: (job) => planKey(job, axis), draw: (job) => planBar(job, axis), head: () => axisHead(axis), line: true, plain: true },
  { name: "start", time: true, title: "Start", value: (job) => job.started ?? job.predicted_start, text: startOf, number: true },
  { name: "progress", title: "Done", value: (job) => progressOf(job)?.share ?? null, text: progressText, number: true, gaps: true },
  { name: "p50", time: true, title: "Finish P50–P90", value: (job) => job.predicted_p50, text: (job) => finishText(job) + (job.revoked ? `, guarantee of ${moment(job.revoked)} revoked` : ""), line: true, number: true, late: atRisk, quiet: (job) => Boolean(job.guessed) },
  { name: "p90", time: true, title: "P90", value: (job) => job.predicted_p90, text: (job) => moment(job.predicted_p90) },
  { name: "guaranteed", time: true, title: "Guaranteed", value: (job) => job.guaranteed, text: (job) => moment(job.guaranteed) },
  { name: "due", time: true, title: "Deadline", value: (job) => job.due, text: (job) => moment(job.due) },
  { name: "nodes", title: "Nodes", value: (job) => job.grants.map(([node]) => node).join(" "), wide: true, line: true, gaps: true },
  { name: "reason", title: "Reason", value: (job) => job.reason, wide: true, line: true, plain: true, gaps: true },
];

// Of an attached cluster: what only its scheduler knows, and by when a job starts in nine cases of ten.
const attachedColumns = (titles) => [
  ...["partition", "account", "qos"].map((name) => ({ name, title: titles[name], value: (job) => job.attached[name], optional: true })),
  { name: "start_p90", title: "Start P90", value: (job) => job.attached.start_p90, text: (job) => moment(job.attached.start_p90) },
  { name: "site_start", title: titles.start, value: (job) => job.attached.start, text: (job) => moment(job.attached.start) || (job.started ? "" : "none") },
  { name: "site_reason", title: "Site says", value: (job) => job.attached.reason },
].filter(({ title }) => title).map((each) => ({ ...each, title: capital(each.title) }));

// The columns that the server titles: numbers that are shown as they stand.
const titled = (cluster) => Object.entries(cluster.jobTitles).map(([name, title]) => ({ name, title, value: (job) => job[name], number: true }));

export const queueLink = (filter) => {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value)).toString();
  return query ? `#/queue?${query}` : "#/queue";
};

// What needs a look first; then what waits, by its start; what is held; what runs, by its finish.
function groupsOf(jobs) {
  const sorted = (part, time) => part.map((job) => [time(job) ?? Number.MAX_VALUE, job]).sort((a, b) => a[0] - b[0] || a[1].number - b[1].number).map(([, job]) => job);
  const parts = { risk: [], waiting: [], held: [], running: [] };
  for (const job of jobs) parts[atRisk(job) ? "risk" : tabOf(job)].push(job);
  parts.risk = sorted(parts.risk, neededBy);
  parts.waiting = sorted(parts.waiting, (job) => job.predicted_start);
  parts.running = sorted(parts.running, (job) => job.predicted_p50);
  const last = parts.waiting.findLast((job) => job.predicted_start), asked = parts.waiting.reduce((sum, job) => sum + job.gpus, 0);
  const used = parts.running.reduce((sum, job) => sum + job.gpus, 0);
  return [
    [`At risk: ${number(parts.risk.length)} expected past the guarantee or deadline`, parts.risk],
    [`Waiting: ${number(parts.waiting.length)}, for ${counted(asked, "GPU")}${last ? `; the last starts at ${moment(last.predicted_start)}` : ""}`, parts.waiting],
    [`Held: ${number(parts.held.length)}, until they are released`, parts.held],
    [`Running: ${number(parts.running.length)}, on ${counted(used, "GPU")}`, parts.running],
  ];
}

const WAITS = new Set(["waiting", "held"]);
const TABS = { "": "All", waiting: "Waiting", running: "Running", held: "Held", risk: "At risk" };
const tabOf = (job) => (WAITS.has(job.state) ? job.state : "running");

export function queue(root, { cluster, session, query, go }) {
  const filter = Object.fromEntries(query);
  const text = h("input", { type: "search", value: filter.text ?? "", placeholder: "Name, number, reason", "aria-label": "Filter by text", class: "filter" });
  const user = h("input", { type: "text", value: filter.user ?? "", placeholder: "Every user", "aria-label": "Filter by user", size: 12 });
  let tab = filter.risk ? "risk" : filter.state ?? "";
  const tabs = Object.entries(TABS).map(([name, title]) => [name, h("button", { type: "button", onclick: () => { tab = tab === name ? "" : name; changed(); } }, title, " ", h("small"))]);
  const mine = h("button", { type: "button", onclick: () => { user.value = user.value === session.user ? "" : session.user; changed(); } }, "Mine");
  const count = h("span", { class: "count" });
  const actions = ["cancel", "hold", "release"].map((action) =>
    h("button", { type: "button", disabled: true, class: action === "cancel" ? "danger" : null, onclick: () => changeJobs(action, [...table.selected]).then(() => { table.selectAll(false); }) },
      capital(action)));
  const more = titled(cluster), changes = !session.run && !session.reads;
  const site = session.reads ? attachedColumns(session.titles) : [];
  const chosen = h("span", { class: "chosen", hidden: true }, h("span", { class: "quiet" }), actions);
  const table = new Table({
    name: session.reads ? "attached" : "queue", label: "Jobs that are not over", key: (job) => job.number, select: changes, groups: groupsOf,
    columns: [...columns.slice(0, -1), ...site, ...columns.slice(-1), ...more], hidden: [...(session.reads ? ["plan", "progress"] : []), "account", "site_reason", "submitted", "p90", "guaranteed", "due", "nodes", ...more.map(({ name }) => name)],
    open: (job) => go(`#/job/${job.number}`),
    onselect: () => { for (const button of actions) button.disabled = !table.selected.size; tell(); },
    empty: () => (cluster.jobs.size ? "No job is like this." : session.run ? "No job is here at this moment." : "No job is here. The next one: volvelle submit --gpus 1 -- python train.py"),
  });
  const tell = () => {
    chosen.hidden = !table.selected.size;
    chosen.firstChild.textContent = `${number(table.selected.size)} selected`;
    const guesses = table.rows.some((job) => job.guessed) ? "; dashed and pale: P90 is a guess" : "";
    count.textContent = `${number(table.rows.length)} of ${counted(cluster.jobs.size, "job")}${guesses}`;
  };
  const draw = () => {
    const words = text.value.trim().toLowerCase(), rows = [], counts = Object.fromEntries(tabs.map(([name]) => [name, 0]));
    for (const job of cluster.jobs.values()) {
      if (user.value && job.user !== user.value.trim()) continue;
      if (words && !matches(job, words)) continue;
      const risk = atRisk(job), own = tabOf(job);
      counts[""] += 1;
      counts[own] += 1;
      if (risk) counts.risk += 1;
      if (!tab || tab === own || tab === job.state || (risk && tab === "risk")) rows.push(job);
    }
    for (const [name, button] of tabs) {
      button.setAttribute("aria-pressed", tab === name);
      button.lastChild.textContent = number(counts[name]);
    }
    axis = axisOf(cluster.jobs.values());
    table.show(rows);
    tell();
  };
  const changed = () => {
    history.replaceState(null, "", queueLink({ text: text.value, state: tab === "risk" ? "" : tab, user: user.value, risk: tab === "risk" ? "yes" : "" }));
    draw();
  };
  for (const field of [text, user]) {
    field.addEventListener("input", changed);
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault(); // it would empty the field
      table.grid.focus();
    });
  }
  root.append(top("Queue", text, user, session.run ? null : mine, table.tools),
    h("div", { class: "controls" }, h("div", { class: "tabs", role: "group", "aria-label": "Filter by state" }, tabs.map(([, button]) => button)), changes ? chosen : null, count), table.element);
  draw();
  return { update: draw };
}

const matches = (job, words) => jobId(job.number) === words || nameOf(job).toLowerCase().includes(words) || job.reason.toLowerCase().includes(words);

export const waited = (job) => (job.started ?? now()) - job.submitted;
