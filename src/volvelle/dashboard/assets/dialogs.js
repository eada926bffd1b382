// Questions before something is changed, and what became of it.

import { post } from "./api.js";
import { h } from "./dom.js";

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

const DONE = { cancel: "cancelled", hold: "held", release: "released" };

// Cancel, hold or release jobs, a few at a time; says how many it did.
export async function changeJobs(action, numbers) {
  const what = numbers.length === 1 ? `job ${numbers[0]}` : `${numbers.length} jobs`;
  const wish = action[0].toUpperCase() + action.slice(1);
  if (action !== "release" && !(await confirmed(`${wish} ${what}?`, `${wish} ${what}`))) return;
  const left = [...numbers], failures = [];
  const work = async () => {
    for (let number = left.pop(); number !== undefined; number = left.pop()) {
      await post(`/v1/jobs/${number}/${action}`).catch((error) => failures.push(`${error.message}`));
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  const done = numbers.length - failures.length;
  if (failures.length) say(`${done} of ${numbers.length} jobs ${DONE[action]}; ${failures[0]}`, true);
  else say(numbers.length === 1 ? `Job ${numbers[0]} is ${DONE[action]}.` : `${done} jobs ${DONE[action]}.`);
}

const KEYS = [
  ["g, then o q t n s h w f", "overview, queue, timeline, nodes, shares, history, what if, front"],
  ["/", "to the filter"],
  ["arrows, j k, Home, End", "through the rows of a table or the timeline"],
  ["Enter, Space", "open, select a row"],
  ["+ − [ ] 0", "zoom the timeline"],
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
