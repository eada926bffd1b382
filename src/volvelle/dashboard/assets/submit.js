// A job, and what would become of it, asked anew at each change; then it may be submitted.

import { planPicture } from "./answer.js";
import { post } from "./api.js";
import { asking, card, field, wrong } from "./asking.js";
import { counted, duration, h, moment, now } from "./dom.js";
import { say, sayError } from "./dialogs.js";
import { gpuMap } from "./gpus.js";
import { finishText } from "./queue.js";
import { asCommand } from "./request.js";
import { UNDERTAKEN } from "./sentences.js";

const PAUSE_MS = 400;

export function submit(root, { cluster, go }) {
  const inputs = {
    command: h("input", { type: "text", placeholder: "python train.py" }), name: h("input", { type: "text" }),
    gpus: h("input", { type: "number", min: 1, value: 1, required: true }), estimate: h("input", { type: "text", value: "1h" }),
    types: h("input", { type: "text", placeholder: "any", list: "gpu-types" }), within: h("input", { type: "text", placeholder: "none, or 4h30m" }),
    soft: h("input", { type: "checkbox" }),
  };
  const send = h("button", { type: "submit", class: "main", disabled: true }, "Submit it");
  const asked = h("small", {}, "asking"), foretold = h("div", { class: "answer", "aria-live": "polite" }), deadlines = h("div", { class: "answer" }), typed = asCommand("h2"), command = h("section", { class: "card ask last" }, typed.parts), free = h("div");
  const type = h("datalist", { id: "gpu-types" }, [...new Set([...cluster.nodes.values()].map((node) => node.gpu_type))].filter(Boolean).map((value) => h("option", { value })));
  let job = null, timer = 0, busy = false, again = false, closed = false;

  const show = (found) => {
    const told = { state: "waiting", submitted: now(), predicted_start: found.start, predicted_p50: found.p50, predicted_p90: found.p90, guaranteed: found.guarantee?.finish_by, due: null };
    foretold.replaceChildren(...foretelling(found, told));
    if (found.p50) foretold.children[1].replaceWith(planPicture(told, foretold.clientWidth));
    asked.textContent = `asked ${moment(now())}${found.guessed ? "; P90 is a guess" : ""}`;
    command.hidden = false;
    typed.show(inputs.command.value ? job : { ...job, command: ["python", "train.py"] });
  };
  // One question at a time; of those that come meanwhile the last.
  const ask = async () => {
    if (busy) { again = true; return; }
    busy = true;
    do {
      again = false;
      job = requestOf(inputs);
      try {
        const found = await post("/v1/forecast", job);
        if (closed) return;
        show(found);
        send.disabled = again || !inputs.command.value;
        if (!again) await tryDeadlines(found, () => again || closed);
      } catch (error) {
        asked.textContent = "";
        command.hidden = would.hidden = true; // they are of the job before
        foretold.replaceChildren(wrong(error));
      }
    } while (again && !closed);
    busy = false;
  };
  const tryDeadlines = async (found, stopped) => {
    const rows = [];
    if (!job.deadline) for (const within of candidates(found)) {
      const kept = await post("/v1/forecast", { ...job, deadline: { within, kind: "soft" } });
      if (stopped()) return;
      rows.push([within, kept]);
    }
    would.hidden = !rows.length;
    const use = (within) => { inputs.within.value = length(within).replaceAll(" ", ""); changed(); };
    deadlines.replaceChildren(deadlineTable(rows, use));
  };
  const changed = () => {
    send.disabled = true; // another job: it is asked about first
    asked.textContent = "asking";
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  };
  const onsubmit = (event) => { event.preventDefault(); hand(job, go); };
  const part = h("form", { class: "fields", oninput: changed, onsubmit },
    field("Command", inputs.command, "field across"), field("Name", inputs.name), field("GPUs", inputs.gpus), field("Takes about", inputs.estimate),
    field("GPU type", inputs.types), field("Deadline in", inputs.within), h("label", { class: "check" }, inputs.soft, " may be missed"), type, h("span", { class: "buttons" }, send));
  const when = card("When would it start?", foretold), would = card("What a deadline would get", deadlines);
  when.firstChild.append(asked);
  would.hidden = true;
  const note = "Nothing is submitted before the button is pressed. The job runs in the server's default place, without files of yours; volvelle submit sends them along.";
  const holders = card("Who holds the GPUs", free);
  holders.classList.add("desk");
  root.append(...asking("Submit", [card("The job", part, h("p", { class: "note" }, note)), command], [when, would, holders]));
  const map = gpuMap(free, cluster, go);
  ask();
  return { update: map.draw, close: () => { closed = true; clearTimeout(timer); map.close(); } };
}

function requestOf({ command, name, gpus, estimate, types, within, soft }) {
  const job = { command: ["sh", "-c", command.value || "true"], gpus: Number(gpus.value) };
  if (name.value) job.name = name.value;
  if (estimate.value) job.estimate = estimate.value;
  if (types.value) job.gpu_types = types.value.split(/[ ,]+/);
  if (within.value) job.deadline = { within: within.value, ...(soft.checked && { kind: "soft" }) };
  return job;
}

function foretelling(found, told) {
  const facts = [
    ["Before it", counted(found.ahead, "job")],
    ...(found.deadline_share === null || found.guarantee?.finish_by ? [] : [["Deadline", `${Math.round(100 * found.deadline_share)} % of jobs like it would be in time`]]),
    ...(found.guarantee ? [["Guarantee", guaranteeText(found.guarantee)]] : []),
    ...(found.reason ? [["Because", found.reason]] : []),
    ...(found.notices.length ? [["Note", found.notices.join("; ")]] : []),
  ];
  return [h("p", { class: "lead" }, found.start ? `Starts ${found.start <= now() ? "now" : `about ${moment(found.start)}`}.` : "Its start is not known.", h("span", {}, found.p50 ? ` Finishes ${finishText(told)}.` : " Its finish is not known.")),
    h("div"), h("dl", { class: "facts" }, facts.flatMap(([title, text]) => [h("dt", {}, title), h("dd", {}, text)]))];
}

const guaranteeText = (guarantee) => (guarantee.finish_by ? `by ${moment(guarantee.finish_by)}. ${UNDERTAKEN}` : `none: ${guarantee.reason}`);

// Deadlines to try, in seconds: about the P90 and twice that, on whole five minutes where they are long. Each costs the server a forecast.
function candidates({ p50, p90 }) {
  if (!p50) return [];
  const rounded = (seconds) => { const step = seconds > 3600 ? 300 : 60; return Math.ceil(seconds / step) * step; };
  const late = Math.max(60, (p90 ?? p50) - now());
  return [...new Set([late, 2 * late].map(rounded))];
}

const length = (seconds) => duration(seconds).replace(/ 00[sm]$/, "");

const deadlineTable = (rows, use) => h("div", { class: "table", tabIndex: 0, role: "region", "aria-label": "What a deadline would get" }, h("table", {},
  h("thead", {}, h("tr", {}, ["Deadline in", "At", "Jobs like it in time", "Guarantee"].map((name) => h("th", { scope: "col" }, name)), h("td"))),
  h("tbody", {}, rows.map(([within, { deadline_share: share, guarantee }]) => h("tr", {}, h("th", { scope: "row" }, length(within)), h("td", {}, moment(now() + within)),
    h("td", {}, share === null ? "" : `${Math.round(100 * share)} %`), h("td", {}, guarantee?.finish_by ? `by ${moment(guarantee.finish_by)}` : "none"),
    h("td", {}, h("button", { type: "button", class: "small", "aria-label": `A deadline in ${length(within)}`, onclick: () => use(within) }, "Use it")))))));

async function hand(job, go) {
  try {
    const { numbers, notices } = await post("/v1/jobs", job);
    go(`#/job/${numbers[0]}`);
    if (notices.length) say(notices.join("; "));
  } catch (error) {
    sayError(error);
  }
}
