// A job, asked about before it is submitted.

import { post } from "./api.js";
import { counted, h, moment, now } from "./dom.js";
import { say, sayError } from "./dialogs.js";
import { finishText } from "./queue.js";
import { UNDERTAKEN } from "./sentences.js";

export function submit(root, { go }) {
  root.append(h("h1", {}, "Submit"), jobForm(go));
  return { update: () => {} };
}

export const field = (title, input) => h("label", { class: "field" }, title, input);

// A form that asks and shows the answer; the fields are read anew each time.
export function form(title, fields, ask, action = "Ask", busy = "Working it out …") {
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "main" }, action);
  const onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    answer.replaceChildren(h("p", { class: "note" }, busy));
    try {
      answer.replaceChildren(...(await ask()));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "wrong" }, error.hint ? `${error.message}; ${error.hint}` : error.message));
    }
    button.disabled = false;
  };
  return h("section", { class: "card ask" }, h("h2", {}, title), h("form", { class: "controls", onsubmit }, fields, h("span", { class: "buttons" }, button)), answer);
}

// Asks first, and submits what was asked about.
function jobForm(go) {
  const name = h("input", { type: "text", size: 14 }), command = h("input", { type: "text", size: 30, placeholder: "python train.py" });
  const gpus = h("input", { type: "number", min: 1, value: 1 }), estimate = h("input", { type: "text", value: "1h", size: 8 });
  const types = h("input", { type: "text", placeholder: "any", size: 8 }), within = h("input", { type: "text", placeholder: "none", size: 8 });
  const fields = [field("Command", command), field("Name", name), field("GPUs", gpus), field("Takes about", estimate), field("GPU type", types), field("Deadline in", within)];
  let asked = null;
  const send = h("button", { type: "button", disabled: true, onclick: () => hand(asked, go) }, "Submit it");
  const part = form("When would it start?", fields, async () => {
    const job = { command: ["sh", "-c", command.value || "true"], gpus: Number(gpus.value) };
    if (name.value) job.name = name.value;
    if (estimate.value) job.estimate = estimate.value;
    if (types.value) job.gpu_types = types.value.split(/[ ,]+/);
    if (within.value) job.deadline = { within: within.value };
    const found = await post("/v1/forecast", job);
    asked = job;
    send.disabled = !command.value;
    const facts = [
      ["Before it", counted(found.ahead, "job")],
      ...(found.deadline_share === null ? [] : [["Deadline", `kept in ${Math.round(100 * found.deadline_share)} % of forecasts`]]),
      ...(found.guarantee ? [["Guarantee", found.guarantee.finish_by ? `by ${moment(found.guarantee.finish_by)}. ${UNDERTAKEN}` : `none: ${found.guarantee.reason}`]] : []),
      ...(found.reason ? [["Because", found.reason]] : []),
      ...(found.notices.length ? [["Note", found.notices.join("; ")]] : []),
    ];
    const finish = found.p50 ? ` Finishes ${finishText({ predicted_p50: found.p50, predicted_p90: found.p90 })}${found.guessed ? "; P90 is a guess" : ""}.` : " Its finish is not known.";
    return [h("p", { class: "lead" }, found.start ? `Starts ${found.start <= now() ? "now" : `about ${moment(found.start)}`}.` : "Its start is not known.", h("span", {}, finish)),
      h("dl", { class: "facts" }, facts.flatMap(([title, text]) => [h("dt", {}, title), h("dd", {}, text)]))];
  });
  const asking = part.querySelector("form");
  asking.lastChild.append(send);
  asking.addEventListener("input", () => { send.disabled = true; }); // another job: ask about it first
  part.append(h("p", { class: "note" }, "Asking submits nothing. A job with a command can be submitted once it was asked about; it runs in the server's default place, without files of yours."));
  return part;
}

async function hand(job, go) {
  try {
    const { numbers, notices } = await post("/v1/jobs", job);
    go(`#/job/${numbers[0]}`);
    if (notices.length) say(notices.join("; "));
  } catch (error) {
    sayError(error);
  }
}
