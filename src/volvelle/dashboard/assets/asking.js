// Pages that ask what would be: questions at the left, what was answered at the right.

import { h } from "./dom.js";

const phone = matchMedia("(max-width: 820px)");

export const field = (title, input, style = "field") => h("label", { class: style }, title, input);

export const card = (title, ...parts) => h("section", { class: "card ask" }, h("h2", {}, title), parts);

export const asking = (title, questions, answers) => [h("h1", {}, title),
  h("div", { class: "cards ragged asks" }, h("div", { class: "column rest" }, questions), h("div", { class: "column most" }, answers))];

export const wrong = (error) => h("p", { class: "wrong" }, error.hint ? `${error.message}; ${error.hint}` : error.message);

// The card of the last question's answer, under `before` until one is asked; `fill` shows what `ask` answers. On phones it
// is below what was asked.
export function answerCard(before) {
  const title = h("h2", {}, before), body = h("div", { class: "answer", "aria-live": "polite" }), element = h("section", { class: "card ask" }, title, body);
  let last = 0;
  const fill = async (name, busy, ask) => {
    const question = last += 1;
    title.textContent = name;
    body.replaceChildren(h("p", { class: "note" }, busy));
    const parts = await ask().catch((error) => [wrong(error)]);
    if (question !== last) return;
    body.replaceChildren(...parts);
    if (phone.matches) element.scrollIntoView();
  };
  return { element, body, fill };
}

// A form whose answer goes to the card `answer`; the fields are read anew each time.
export function form(title, fields, ask, answer, busy = "Working it out …") {
  const button = h("button", { type: "submit", class: "main" }, "Ask");
  const onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    await answer.fill(title, busy, ask);
    button.disabled = false;
  };
  return card(title, h("form", { class: "fields", onsubmit }, fields, h("span", { class: "buttons" }, button)));
}

// Questions that are asked by a click: [title, what it is, how].
export const examples = (title, rows) => card(title, h("ul", { class: "choices" }, rows.map(([name, what, ask]) => h("li", {},
  h("b", {}, name), h("button", { type: "button", class: "small", "aria-label": `Ask: ${name}`, onclick: ask }, "Ask"), h("p", { class: "note" }, what)))));
