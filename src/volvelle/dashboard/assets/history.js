// Jobs that are over, page by page.

import { get } from "./api.js";
import { counted, duration, h, moment, number, reasonOf, top } from "./dom.js";
import { sayError } from "./dialogs.js";
import { guaranteeOf, jobColumns, neededBy } from "./queue.js";
import { Table } from "./table.js";

const PAGE = 500;

// A metric of a run's jobs.
const measured = ({ name, title, unit }) => ({
  name, title: unit === "GPU s" ? `${title} (GPU s)` : title, value: (job) => job.metrics[name], number: true,
  text: ({ metrics: { [name]: value } }) => (value === null ? "" : unit === "s" ? duration(value) : `${number(value)}${unit === "%" ? " %" : ""}`),
});

// Whether a job ended by `needed`, else how that was `missed`; the command line says the same (format_promises).
function kept(job, needed, missed) {
  if (job.state !== "finished") return `${missed}: it ${job.state === "rejected" ? "was " : ""}${job.state}`;
  return job.ended - needed > 1 ? `${missed} by ${duration(job.ended - needed)}` : "kept";
}

function keptText(job) {
  const by = guaranteeOf(job), said = [];
  if (job.state === "cancelled") return "";
  if (by) said.push(`guarantee ${kept(job, by, "broken")}`);
  else if (job.guarantee?.revoked) said.push("guarantee revoked");
  if (job.due) said.push(`deadline ${kept(job, job.due, "missed")}`);
  return said.join(", ");
}

// By how many seconds it ended too late for the earlier of the two.
const lateFor = (job) => (keptText(job) && neededBy(job) ? job.ended - Math.min(...[guaranteeOf(job), job.due].filter(Boolean)) : null);

// How long it was to take, as it was told when it was submitted.
const told = (job) => (job.first_p50 ? job.first_p50 - job.submitted : null);

export function history(root, { session, go }) {
  const table = new Table({
    name: "history", label: "Jobs that are over", sort: "-ended", empty: () => "No job is over yet.", key: (job) => job.number, open: (job) => go(`#/job/${job.number}`),
    columns: [
      ...jobColumns,
      { name: "waited", title: "Waited", value: (job) => (job.first_started ? job.first_started - job.submitted : null), text: (job) => duration(job.first_started ? job.first_started - job.submitted : null), number: true },
      { name: "ended", time: true, title: "Ended", value: (job) => job.ended, text: (job) => moment(job.ended) },
      { name: "took", title: "Took", value: (job) => (job.ended ? job.ended - job.submitted : null), text: (job) => duration(job.ended ? job.ended - job.submitted : null), number: true },
      { name: "told", optional: true, title: "Told", value: told, text: (job) => duration(told(job)), number: true },
      { name: "kept", title: "Kept or missed", value: lateFor, text: keptText, wide: true, line: true, plain: true, optional: true, late: (job) => /broken|missed/.test(keptText(job)) },
      { name: "preemptions", title: "Preempted", value: (job) => job.preemptions, number: true },
      ...(session.metrics ?? []).map(measured),
      { name: "reason", title: "Reason", value: reasonOf, wide: true, line: true, optional: true },
    ],
  });
  const count = h("span", { class: "count" }), rows = [];
  const more = h("button", { type: "button", onclick: () => read() }, "Earlier ones");
  let next = null, asked = 0;
  const read = async () => {
    const question = asked += 1;
    try {
      const page = await get(`/v1/jobs?over=true&limit=${PAGE}${next === null ? "" : `&after=${next}`}`);
      if (question !== asked) return; // another moment of a run was asked for since
      if (session.run) rows.length = 0;
      rows.push(...page.jobs);
      next = page.next;
    } catch (error) {
      sayError(error);
    }
    more.hidden = next === null;
    count.textContent = `${counted(rows.length, "job")}${next === null ? "" : ", and earlier ones"}`;
    table.show(rows);
  };
  root.append(top(session.role === "user" ? "My history" : "History", table.tools),
    h("div", { class: "controls" }, count, more), table.element);
  read();
  return { update: () => { if (session.run) read(); } };
}
