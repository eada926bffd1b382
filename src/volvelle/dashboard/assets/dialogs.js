// Questions before something is changed, and what became of it.

import { patch, post } from "./api.js";
import { counted, duration, h } from "./dom.js";

// What happened, for everybody: in the line at the foot, which screen readers read out.
export function say(text, wrong = false) {
  const status = document.getElementById("status");
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
}

export const sayError = (error) => say(error.hint ? `${error.message}; ${error.hint}` : error.message, true);

// Whether the user agrees.
export function confirmed(question, action) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": action, onclose: () => { dialog.remove(); resolve(dialog.returnValue === "yes"); } },
      h("p", {}, question),
      h("p", { class: "buttons" },
        h("button", { type: "button", class: "main", onclick: () => dialog.close("yes") }, action),
        h("button", { type: "button", onclick: () => dialog.close("no") }, "Back")));
    document.body.append(dialog);
    dialog.showModal();
  });
}

const DONE = { cancel: "cancelled", hold: "held", release: "released", requeue: "put back" };

// Cancel, hold or release jobs, a few at a time; says how many it did.
export async function changeJobs(action, numbers) {
  const what = numbers.length === 1 ? `job ${numbers[0]}` : counted(numbers.length, "job");
  const wish = action[0].toUpperCase() + action.slice(1);
  if (action !== "release" && !(await confirmed(`${wish} ${what}?`, `${wish} ${what}`))) return;
  const left = [...numbers], failures = [], notices = [];
  const work = async () => {
    for (let number = left.pop(); number !== undefined; number = left.pop()) {
      const answer = await post(`/v1/jobs/${number}/${action}`).catch((error) => { failures.push(`${error.message}`); });
      notices.push(...(answer?.notices ?? []));
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  const done = numbers.length - failures.length;
  if (failures.length) say(`${done} of ${counted(numbers.length, "job")} ${DONE[action]}; ${failures[0]}`, true);
  else say([numbers.length === 1 ? `Job ${numbers[0]} is ${DONE[action]}` : `${counted(done, "job")} ${DONE[action]}`, ...notices, ""].join(". ").trimEnd());
}

// What a job that waits may declare anew, as far as this page asks for it.
const CHANGEABLE = { estimate: "Takes about", time_limit: "Time limit", priority: "Priority" };

// Declare attributes of a waiting job anew; says what the server has to say of them.
export async function declare(number, change) {
  try {
    const { notices } = await patch(`/v1/jobs/${number}`, change);
    say(notices.length ? notices.join("; ") : `Job ${number} is changed.`);
  } catch (error) {
    sayError(error);
  }
}

// Whether a change that would help is offered: never another estimate, which is to be what the job takes.
export const isOffered = (change) => Object.keys(change).length > 0 && Object.keys(change).every((key) => key in CHANGEABLE && key !== "estimate");

// A number alone is one of seconds.
const valueOf = (text) => (text === "" ? null : /^-?[0-9]+(\.[0-9]+)?$/.test(text) ? Number(text) : text);

export function askForChange(number, request) {
  const written = (key) => (key === "priority" ? String(request[key] ?? "") : duration(request[key]));
  const inputs = Object.entries(CHANGEABLE).map(([key, title]) => [key, title, h("input", { type: "text", value: written(key) })]);
  return new Promise((resolve) => {
    const onsubmit = async (event) => {
      event.preventDefault();
      dialog.close();
      const changed = inputs.filter(([key, , input]) => input.value.trim() !== written(key));
      if (changed.length) await declare(number, Object.fromEntries(changed.map(([key, , input]) => [key, valueOf(input.value.trim())])));
      resolve();
    };
    const dialog = h("dialog", { "aria-label": "Change", onclose: () => dialog.remove() }, h("form", { onsubmit, class: "login" },
      inputs.map(([, title, input]) => h("label", { class: "field" }, title, input)),
      h("p", { class: "buttons" }, h("button", { type: "submit", class: "main" }, `Change job ${number}`), h("button", { type: "button", onclick: () => dialog.close() }, "Back"))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

const KEYS = [
  ["g, then o q t u n s h w p", "overview, queue, timeline, submit, nodes, shares, history, what if, policies"],
  ["/, Escape", "to the filter, back to the list"],
  ["arrows, j k, Home, End", "through the rows of a table or the timeline"],
  ["Enter, Space", "open, select a row"],
  ["+ − [ ] 0 n", "zoom the timeline, to now"],
  ["j k, Enter, Escape", "take a job of the timeline in hand, open it, drop it"],
  ["?", "this list"],
];

export function showKeys() {
  const dialog = h("dialog", { "aria-label": "Keys", onclose: () => dialog.remove() },
    h("h2", {}, "Keys"),
    h("dl", { class: "facts" }, KEYS.flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])),
    h("p", { class: "buttons" }, h("button", { type: "button", class: "main", onclick: () => dialog.close() }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}
