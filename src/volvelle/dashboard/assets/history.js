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

// By how many seconds it ended too late for its guarantee, or without one for its deadline; null where it had neither.
const lateFor = (job) => (neededBy(job) && (job.state === "finished" || job.ended > neededBy(job)) ? job.ended - neededBy(job) : null);
const isLate = (job) => lateFor(job) > 1;

function keptText(job) {
  const late = lateFor(job), what = guaranteeOf(job) ? "" : job.guarantee?.revoked ? "revoked; deadline: " : "deadline: ";
  return late === null ? (job.guarantee?.revoked ? "revoked" : "") : `${what}${duration(Math.abs(late))} ${isLate(job) ? "late" : "early"}`;
}

export function history(root, { session, go }) {
  const table = new Table({
    name: "history", label: "Jobs that are over", sort: "-ended", empty: () => "No job is over yet.", key: (job) => job.number, open: (job) => go(`#/job/${job.number}`),
    columns: [
      ...jobColumns,
      { name: "waited", title: "Waited", value: (job) => (job.first_started ? job.first_started - job.submitted : null), text: (job) => duration(job.first_started ? job.first_started - job.submitted : null), number: true },
      { name: "ended", time: true, title: "Ended", value: (job) => job.ended, text: (job) => moment(job.ended) },
      { name: "took", title: "Took", value: (job) => (job.ended ? job.ended - job.submitted : null), text: (job) => duration(job.ended ? job.ended - job.submitted : null), number: true },
      { name: "told", time: true, line: true, optional: true, title: "Told", value: (job) => job.first_p50, text: (job) => moment(job.first_p50) },
      { name: "kept", title: "Guarantee", value: lateFor, text: keptText, line: true, optional: true, number: true, late: isLate },
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
