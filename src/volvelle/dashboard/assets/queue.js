// The queue: filters in the address, columns and order remembered by the browser.

import { progressOf, progressText } from "./answer.js";
import { counted, h, jobId, moment, nameOf, now, number, span } from "./dom.js";
import { changeJobs } from "./dialogs.js";
import { Table } from "./table.js";

const STATES = ["waiting", "held", "starting", "running", "stopping"];

// A start that was foreseen and has not come is still to come.
export const startOf = (job) => moment(job.started ?? (job.predicted_start && Math.max(job.predicted_start, now())));

// "16:30–16:50": P50 to P90.
export function finishText(job) {
  if (!job.predicted_p50) return "not known yet";
  const p50 = moment(job.predicted_p50), p90 = moment(job.predicted_p90);
  return !p90 ? `${p50} (P50)` : p90 === p50 ? p50 : span(job.predicted_p50, job.predicted_p90);
}

// Whether it may miss its guarantee, or without one its deadline.
export const atRisk = (job) => Boolean(neededBy(job) && job.predicted_p90 > neededBy(job));

export const guaranteeOf = (job) => job.guarantee?.finish_by ?? job.guaranteed;

export const neededBy = (job) => guaranteeOf(job) ?? job.due;

export const neededByText = (job) => `${guaranteeOf(job) ? "Guaranteed by" : "Deadline"} ${moment(neededBy(job))}`;

export const jobColumns = [
  { name: "number", title: "Job", value: (job) => job.number, text: (job) => jobId(job.number), link: (job) => `#/job/${job.number}`, plain: true },
  { name: "name", title: "Name", value: nameOf, wide: true, plain: true },
  { name: "user", title: "User", value: (job) => job.user, plain: true },
  { name: "gpus", title: "GPUs", value: (job) => job.gpus, number: true },
  { name: "state", title: "State", value: (job) => job.state, state: true, plain: true },
  { name: "submitted", title: "Submitted", value: (job) => job.submitted, text: (job) => moment(job.submitted) },
];

const columns = [
  ...jobColumns,
  { name: "start", title: "Start", value: (job) => job.started ?? job.predicted_start, text: startOf },
  { name: "progress", title: "Done", value: (job) => progressOf(job)?.share ?? null, text: progressText, number: true },
  { name: "p50", title: "Finish P50–P90", value: (job) => job.predicted_p50, text: finishText, line: true, late: atRisk },
  { name: "p90", title: "P90", value: (job) => job.predicted_p90, text: (job) => moment(job.predicted_p90) },
  { name: "guaranteed", title: "Guaranteed", value: (job) => job.guaranteed, text: (job) => moment(job.guaranteed) },
  { name: "due", title: "Deadline", value: (job) => job.due, text: (job) => moment(job.due) },
  { name: "nodes", title: "Nodes", value: (job) => job.grants.map(([node]) => node).join(" "), wide: true, line: true },
  { name: "reason", title: "Reason", value: (job) => job.reason, wide: true, line: true, plain: true },
];

// Of an attached cluster: what only its scheduler knows, and by when a job starts in nine cases of ten.
const attachedColumns = [
  { name: "partition", title: "Partition", value: (job) => job.attached.partition },
  { name: "account", title: "Account", value: (job) => job.attached.account },
  { name: "qos", title: "QOS", value: (job) => job.attached.qos },
  { name: "start_p90", title: "Start P90", value: (job) => job.attached.start_p90, text: (job) => moment(job.attached.start_p90) },
  { name: "site_start", title: "Slurm tells", value: (job) => job.attached.start, text: (job) => moment(job.attached.start) || (job.started ? "" : "none") },
  { name: "site_reason", title: "Slurm says", value: (job) => job.attached.reason },
];
const attachedTo = (site) => attachedColumns.map((column) => ({ ...column, title: column.title.replace("Slurm", site) }));

// The columns that the server titles: numbers that are shown as they stand.
const titled = (cluster) => Object.entries(cluster.jobTitles).map(([name, title]) => ({ name, title, value: (job) => job[name], number: true }));

export const queueLink = (filter) => {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value)).toString();
  return query ? `#/queue?${query}` : "#/queue";
};

export function queue(root, { cluster, session, query, go }) {
  const filter = Object.fromEntries(query);
  const text = h("input", { type: "search", value: filter.text ?? "", placeholder: "name, number or reason", "aria-label": "Filter by text", class: "filter" });
  const state = h("select", { "aria-label": "Filter by state" }, h("option", { value: "" }, "every state"), STATES.map((each) => h("option", { value: each, selected: filter.state === each }, each)));
  const user = h("input", { type: "text", value: filter.user ?? "", placeholder: "every user", "aria-label": "Filter by user", size: 12 });
  const risk = h("input", { type: "checkbox", checked: Boolean(filter.risk) });
  const mine = h("button", { type: "button", onclick: () => { user.value = session.user; changed(); } }, "Mine");
  const count = h("span", { class: "count" });
  const actions = ["cancel", "hold", "release"].map((action) =>
    h("button", { type: "button", disabled: true, onclick: () => changeJobs(action, [...table.selected]).then(() => { table.selectAll(false); }) },
      action[0].toUpperCase() + action.slice(1)));
  const more = titled(cluster), changes = !session.run && !session.reads;
  const site = session.reads ? attachedTo(session.reads.split(" ")[0]) : [];
  const table = new Table({
    name: session.reads ? "attached" : "queue", label: "Jobs that are not over", key: (job) => job.number, select: changes,
    columns: [...columns.slice(0, -1), ...site, ...columns.slice(-1), ...more], hidden: ["account", "site_reason", "submitted", "p90", "guaranteed", "due", "nodes", ...more.map(({ name }) => name)],
    open: (job) => go(`#/job/${job.number}`),
    onselect: () => { for (const button of actions) button.disabled = !table.selected.size; tell(); },
  });
  const tell = () => {
    const chosen = table.selected.size ? `, ${number(table.selected.size)} selected` : "";
    count.textContent = `${number(table.rows.length)} of ${counted(cluster.jobs.size, "job")}${chosen}`;
  };
  const draw = () => {
    const words = text.value.trim().toLowerCase(), rows = [];
    for (const job of cluster.jobs.values()) {
      if (state.value && job.state !== state.value) continue;
      if (user.value && job.user !== user.value.trim()) continue;
      if (risk.checked && !atRisk(job)) continue;
      if (words && !matches(job, words)) continue;
      rows.push(job);
    }
    table.show(rows);
    tell();
  };
  const changed = () => {
    history.replaceState(null, "", queueLink({ text: text.value, state: state.value, user: user.value, risk: risk.checked ? "yes" : "" }));
    draw();
  };
  for (const field of [text, state, user, risk]) field.addEventListener("input", changed);
  root.append(h("h1", {}, "Queue"),
    h("div", { class: "controls" }, text, state, user, h("label", {}, risk, " at risk"), session.run ? null : mine, changes ? actions : null, table.tools, count), table.element);
  draw();
  return { update: draw };
}

const matches = (job, words) => jobId(job.number) === words || nameOf(job).toLowerCase().includes(words) || job.reason.toLowerCase().includes(words);

export const waited = (job) => (job.started ?? now()) - job.submitted;
