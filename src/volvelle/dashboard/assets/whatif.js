// What if: more nodes; another policy, with a button that lets it decide; and a span of the past under another policy.
// Of an attached cluster: changes of its site, as its scheduler's own tools write them.

import { get, post, put } from "./api.js";
import { answerCard, asking, examples, field, form } from "./asking.js";
import { counted, duration, h, moment, now, number, svg } from "./dom.js";
import { confirmed, say, sayError } from "./dialogs.js";
import { loadChart } from "./load.js";

export function whatif(root, { cluster, session }) {
  const answer = answerCard("As things are"), made = session.reads ? siteQuestions(answer) : questions(cluster, answer);
  root.append(...asking("What if", made.forms, [answer.element, made.examples]));
  answer.body.append(...asThingsAre(cluster, answer.body.clientWidth));
  return { update: () => {} };
}

// What the forecasts come to, before anything else is asked.
function asThingsAre(cluster, width) {
  const waiting = [...cluster.jobs.values()].filter((job) => job.state === "waiting" && job.predicted_start);
  const mean = waiting.reduce((sum, job) => sum + Math.max(0, job.predicted_start - now()), 0) / waiting.length;
  const [chart, said] = loadChart([], cluster, width, CHART_HEIGHT);
  const wait = `${counted(waiting.length, "job")} ${waiting.length === 1 ? "waits" : "wait"}`;
  const lead = waiting.length ? `${wait}, to start in ${duration(mean)} on average.`
    : "No job waits for a start that is forecast.";
  return [h("p", { class: "lead" }, lead), chart, h("p", { class: "note" }, said)];
}

// Questions about a cluster of ours, and examples of both kinds.
function questions(cluster, answer) {
  const [present, past] = [clusterForm(cluster, answer), pastForm(cluster, answer)], { size } = cluster.nodes;
  const other = ["las", "fifo", "srsf"].filter((name) => name !== cluster.policy.split(":")[0]);
  const rows = [
    ["One node more", "Which waiting jobs would start sooner, and by how much", () => present.ask({ count: 1 })],
    ["Twice the nodes", `${counted(size, "node")} more, as the first one is`,
      () => present.ask({ count: Math.min(size, MOST_NODES) })],
    [`Policy ${other[0]}, for the jobs that are here`, "Who would finish earlier, who later; nothing is changed",
      () => present.ask({ count: 0, policy: other[0] })],
    [`Policy ${other[1]}, for the jobs of yesterday`,
      "Every job of the last day simulated twice: as it was, and under that policy",
      () => past.ask({ policy: other[1] })],
  ];
  return { forms: [present.section, past.section, partLists()], examples: examples("Questions to begin with", rows) };
}

// A question by its form, whose fields are set first.
const byClick = (section, inputs) => ({
  section,
  ask: (values) => {
    for (const [name, value] of Object.entries(values)) inputs[name].value = value;
    section.querySelector("form").requestSubmit();
  },
});

const KINDS = ["policies", "admissions"];

// Fields of a policy and an admission, which offer what is installed.
const partFields = (cluster) => [
  h("input", { type: "text", value: cluster.policy, size: 24, list: KINDS[0] }),
  h("input", { type: "text", value: cluster.admission, size: 14, list: KINDS[1] }),
];

function partLists() {
  const lists = KINDS.map((kind) => h("datalist", { id: kind }));
  get("/v1/policies").then((found) => {
    const option = (part) => h("option", { value: part.name }, part.summary);
    for (const [at, kind] of KINDS.entries()) lists[at].replaceChildren(...found[kind].map(option));
  }, sayError);
  return h("div", {}, lists, h("p", { class: "note" }, "A policy with parameters is written las:round=5m. ",
    h("a", { href: "#/policies" }, "All that there are")));
}

const MOST_NODES = 1000, CHART_HEIGHT = 300;

function clusterForm(cluster, answer) {
  const count = h("input", { type: "number", min: 0, max: MOST_NODES, value: 0 });
  const widths = [...cluster.nodes.values()].map((node) => node.gpus);
  const gpus = h("input", { type: "number", min: 1, max: 64, value: widths[0] ?? 8 });
  const kinds = [...new Set([...cluster.nodes.values()].map((node) => node.gpu_type))];
  const type = h("select", {}, kinds.map((kind) => h("option", { value: kind }, kind || "GPU")));
  const [policy, admission] = partFields(cluster);
  const fields = [
    field("More nodes", count), field("with GPUs", gpus), field("of type", type), field("Policy", policy),
    field("Admission", admission),
  ];
  const parts = () => ({ policy: policy.value, admission: admission.value });
  const section = form("Another cluster or policy, for the jobs that are here", fields, async () => {
    const question = parts();
    if (!Number(count.value) && question.policy === cluster.policy && question.admission === cluster.admission) {
      return [h("p", { class: "note" }, "Nothing would change: add nodes, or name another policy.")];
    }
    const [more, each] = [count, gpus].map((input) => Number(input.value));
    if (more) question.nodes = { count: more, gpus: each, gpu_type: type.value };
    return effect(await post("/v1/forecast/cluster", question));
  }, answer);
  const apply = h("button", { type: "button", onclick: () => putInPlace(parts()) }, "Use this policy");
  section.querySelector("form").lastChild.append(apply);
  return byClick(section, { count, policy });
}

function siteQuestions(answer) {
  const changes = h("textarea", { rows: 6, required: true, spellcheck: false });
  const fields = [field("Changes, one a line", changes, "field across")];
  const section = form("Another site, for the jobs that wait", fields, async () => {
    const lines = changes.value.split("\n").map((line) => line.trim()).filter(Boolean);
    return siteEffect((await post("/v1/forecast/site", { changes: lines })).effects);
  }, answer);
  const offered = h("div"), { ask } = byClick(section, { changes });
  const show = (found) => { // what somebody wrote stays
    const known = found.map(({ change }) => change);
    const own = () => (known.includes(changes.value) ? [] : [changes.value.trim()]);
    const add = (change) => ask({ changes: [...own(), change].filter(Boolean).join("\n") });
    const rows = found.map(({ of, change }) => [of, h("code", {}, change), () => add(change)]);
    offered.replaceChildren(examples("Changes to begin with", rows));
  };
  get("/v1/forecast/site").then((found) => show(found.examples), sayError);
  return { forms: [section], examples: offered };
}

function siteEffect(effects) {
  if (!effects.length) return [h("p", { class: "note" }, "No job waits.")];
  const signed = (seconds) => (
    Math.abs(seconds) < 0.5 ? "0" : `${seconds < 0 ? "-" : "+"}${duration(Math.abs(seconds))}`);
  const by = (one) => one.after - one.before, most = Math.max(...effects.map((one) => Math.abs(by(one))));
  const stuck = effects.some((one) => one.never);
  const row = (one) => [
    one.name || "All jobs", shift(by(one), most, signed(by(one))), number(one.jobs), duration(one.before),
    duration(one.after), `${signed(one.least)} to ${signed(one.most)}`, ...(stuck ? [number(one.never)] : []),
  ];
  const titles = ["Difference", "Jobs", "Wait from now", "Changed", "Quick to slow jobs"];
  const of = (kind, title, name) => table([name, ...titles, ...(stuck ? ["Never start"] : [])],
    effects.filter((one) => one.kind === kind).map(row), title);
  const [all] = effects.filter((one) => one.kind === "all");
  const said = all && signed(by(all)) !== "0" ? earlierOrLater(by(all)) : "as soon as now";
  return [
    ...(all ? [h("p", { class: "lead" }, `${counted(all.jobs, "job")} would start ${said} on average.`)] : []),
    of("all", "Mean waits", ""), of("queue", "By queue", "Queue"), of("user", "By user", "User"),
    h("p", { class: "note" }, "By the rules of the site, if nobody else comes. Quick and slow: a quarter and three "
      + "quarters of such jobs take no longer."),
  ];
}

const DAY = 86400;

// A moment as an input of local time has it, and the other way round.
const localTime = (seconds) => {
  const offset = 60 * new Date(seconds * 1000).getTimezoneOffset();
  return new Date((seconds - offset) * 1000).toISOString().slice(0, 16);
};
const secondsOf = (input) => new Date(input.value).getTime() / 1000;

function pastForm(cluster, answer) {
  const since = h("input", { type: "datetime-local", value: localTime(now() - DAY), required: true });
  const until = h("input", { type: "datetime-local", value: localTime(now() + 60), required: true });
  const [policy, admission] = partFields(cluster);
  const fields = [
    field("Submitted from", since, "field across"), field("to", until, "field across"), field("Under policy", policy),
    field("Under admission", admission),
  ];
  const section = form("Yesterday, under another policy", fields, async () => {
    const span = { since: secondsOf(since), until: secondsOf(until) };
    const question = { ...span, policy: policy.value, admission: admission.value };
    return hadOtherwise(await post("/v1/forecast/past", question), question);
  }, answer, "Every job of the span is simulated twice, as it was and otherwise: some seconds, longer where jobs are "
    + "guaranteed …");
  return byClick(section, { policy });
}

function hadOtherwise(found, question) {
  const change = (again, other) => {
    if (!again) return "";
    if (other > 2 * again) return `${number(other / again)}x`;
    return `${other > again ? "+" : ""}${number(100 * (other / again - 1))} %`;
  };
  const states = [found.was, found.again, found.other];
  const row = (title, name) => [title, ...compared(states.map((each) => [each[name], duration(each[name])])),
    change(found.again[name], found.other[name])];
  const rows = [
    row("Mean completion time", "jct_mean"), row("P90 of completion times", "jct_p90"),
    row("Mean wait for GPUs", "wait_mean"), row("Makespan", "makespan"),
  ];
  const { jobs, passed_over: left, unfinished, policy } = found;
  const passed = left ? ` ${number(left)} more did not finish in one of them and are passed over.` : "";
  const titles = ["", "As it was", `Simulated as it was, under ${policy}`,
    `Simulated with ${question.policy} and ${question.admission}`, "Difference"];
  const shown = [
    table(titles, rows, "As it was, and otherwise"),
    unfinished ? h("p", { class: "wrong" }, `${counted(unfinished, "job")} of this span `
      + `${unfinished === 1 ? "is" : "are"} not over. Those that are were served first under ${policy}, which flatters `
      + "it: a span whose jobs are over is fairer.") : null,
    h("p", { class: "note" }, `${counted(jobs, "job")}.${passed} The difference is between the two simulations; how `
      + "far the first is from what was, is the simulation's error."),
  ];
  return shown.filter((each) => each !== null);
}

// Ask, with what it would do at once, and go on with another policy.
export async function putInPlace(parts) {
  try {
    const changed = await post("/v1/policy/forecast", parts);
    const listed = (numbers) => `${numbers.slice(0, 5).join(", ")}${numbers.length > 5 ? ", …" : ""}`;
    const named = (numbers) => (numbers.length ? `${counted(numbers.length, "job")} (${listed(numbers)})` : "no job");
    const [stops, starts, resizes] = [changed.stops, changed.starts, changed.resizes].map(named);
    const effects = `At once it would stop ${stops}, start ${starts} and resize ${resizes}.`;
    if (!(await confirmed(`Go on with ${parts.policy} and ${parts.admission}? ${effects}`, "Use it"))) return;
    const now = await put("/v1/policy", parts);
    say(`${now.policy} with ${now.admission} decides from now on.`);
  } catch (error) {
    sayError(error);
  }
}

function effect(found) {
  const states = [found.before, found.after];
  const mean = (name) => compared(states.map((each) => [each[name], duration(each[name])]));
  const rows = [
    ["Mean time until waiting jobs start", ...mean("start")], ["Mean time until jobs finish", ...mean("finish")],
    ["The last one finishes", ...compared(states.map(({ last }) => [last && last - now(), moment(last)]))],
  ];
  const moves = ({ jobs, mean, most, job }, when) => {
    if (jobs < 2) return jobs ? `Job ${job} would finish ${when}, by ${duration(mean)}.` : "";
    const average = `${counted(jobs, "job")} would finish ${when}, by ${duration(mean)} on average`;
    return `${average}; most job ${job}, by ${duration(most)}.`;
  };
  const by = ({ finish_before: before, finish }) => (before && finish ? finish - before : 0);
  const most = Math.max(1, ...found.jobs.map((job) => Math.abs(by(job))));
  const moved = found.jobs.slice(0, 20).map((job) => [
    h("a", { href: `#/job/${job.number}` }, `${job.number} ${job.name}`),
    shift(by(job), most, by(job) ? earlierOrLater(by(job)) : ""),
    job.user, moment(job.start_before), moment(job.start), moment(job.finish_before), moment(job.finish) || "never",
  ]);
  const titles = ["Job", "Finishes", "User", "Starts now", "then", "Finishes now", "then"];
  return [
    h("p", { class: "lead" }, `${moves(found.earlier, "earlier")} ${moves(found.later, "later")}`.trim()),
    table(["", "Now", "With the change"], rows, "Effect"),
    moved.length ? table(titles, moved, "Jobs that move most")
      : h("p", { class: "note" }, "No job would finish at another time."),
  ];
}

const earlierOrLater = (seconds) => `${duration(Math.abs(seconds))} ${seconds < 0 ? "earlier" : "later"}`;

const bar = (x, width, style) => svg("rect", { x, width, height: 8, class: style });

const strip = (...parts) => svg("svg", {
  viewBox: "0 0 200 8", preserveAspectRatio: "none", class: "bar strip", "aria-hidden": "true",
}, ...parts);

// Values of a row, [value, text] each, with bars as long as their shares of the greatest; the last is what would be.
function compared(values) {
  const most = Math.max(...values.map(([value]) => value ?? 0)) || 1;
  const style = (at) => (at === values.length - 1 ? "held" : "was");
  return values.map(([value, text], at) => (
    h("span", {}, text, strip(bar(0, 200 * Math.max(0, value ?? 0) / most, style(at))))));
}

// A difference in seconds, as a bar from the middle: to the left where it is earlier.
function shift(seconds, most, text) {
  const wide = 100 * Math.min(1, Math.abs(seconds) / (most || 1));
  const moved = bar(seconds < 0 ? 100 - wide : 100, wide, seconds < 0 ? "sooner" : "later");
  return h("span", {}, text, strip(moved, bar(99, 2, "mark")));
}

function table(names, rows, label) {
  const head = names.map((name) => (name ? h("th", { scope: "col" }, name) : h("td")));
  const cells = (texts) => texts.map((text) => h("td", {}, text));
  const line = ([first, ...rest]) => h("tr", {}, h("th", { scope: "row" }, first), cells(rest));
  return h("div", { class: "table", tabIndex: 0, role: "region", "aria-label": label }, h("table", {},
    h("caption", {}, label), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(line))));
}
