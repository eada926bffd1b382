// Which policy is to decide: the one that does, points of fronts, and all that are installed, by what they are good for.

import { get } from "./api.js";
import { counted, h, number, top } from "./dom.js";
import { sayError } from "./dialogs.js";
import { fronts } from "./fronts.js";
import { putInPlace } from "./whatif.js";

// A policy belongs to the goal whose word is the first in what it optimises.
const GOALS = [
  ["Short completion times", /JCT|completion|delay/, "Jobs end early on average; which ones have to wait for that differs."],
  ["Deadlines", /deadline/, "Jobs that declare a deadline are served in time for it, others with what is left."],
  ["Fair shares", /fair|share/, "Users, pools or jobs get as much as one another, now or by their ends."],
  ["Predictable starts", /predictab/, "A start that is told is late less often: few jobs overtake others."],
  ["Busy GPUs", /utilisation|throughput|makespan|money/, "GPUs idle little, or do as much as they can."],
];
const OTHERS = ["Others, to compare with", null, "Schedulers that sites have, CPUs and memory divided under another policy, authors' own simulators."];

const NEEDS = ["Without estimates of run times", "With estimates of run times"];
const FEW = 2; // of each goal and need, before all are asked for; none on phones
const phone = matchMedia("(max-width: 820px)");

function goalOf({ optimises, incumbent, source }) {
  const found = GOALS.map((goal) => [optimises.search(goal[1]), goal]).filter(([at]) => at >= 0).sort((a, b) => a[0] - b[0]);
  return incumbent || /simulator of/.test(source) || !found.length ? OTHERS : found[0][1];
}

export function policies(root, { cluster }) {
  const decides = h("section", { class: "card whole" }), groups = h("div", { class: "cards ragged" });
  const words = h("input", { type: "search", class: "filter", placeholder: "Name, goal, paper", "aria-label": "Filter by text", oninput: () => draw() });
  const needs = h("select", { "aria-label": "Filter by need", onchange: () => draw() }, h("option", { value: "" }, "Whatever they need"), NEEDS.map((title, at) => h("option", { value: at }, title)));
  const count = h("span", { class: "count" });
  let parts = [], cards = [];
  const draw = () => {
    const wanted = words.value.trim().toLowerCase();
    const found = parts.filter((part) => (!needs.value || Number(needs.value) === Number(part.needs_durations)) && [part.name, part.summary, part.optimises, part.source].join(" ").toLowerCase().includes(wanted));
    for (const card of cards) card(found, wanted !== "");
    count.textContent = `${number(found.length)} of ${counted(parts.length, "policy", "policies")}`;
  };
  root.append(top("Policies"), h("div", { class: "cards" }, decides, fronts(cluster)),
    h("div", { class: "top choose" }, h("h2", {}, "All policies"), words, needs, count), groups);
  const drawDeciding = () => { decides.replaceChildren(...deciding(parts, cluster)); };
  get("/v1/policies").then((found) => {
    parts = found.policies.toSorted((a, b) => a.optimises.length - b.optimises.length); // the more general first
    const made = [...GOALS, OTHERS].map((goal) => goalCard(goal, cluster));
    cards = made.map(([, show]) => show);
    groups.replaceChildren(...made.map(([element]) => element));
    drawDeciding();
    draw();
  }, sayError);
  drawDeciding();
  return { update: drawDeciding };
}

function deciding(parts, { policy, admission }) {
  const part = parts.find(({ name }) => name === policy.split(":")[0]);
  return [h("h2", {}, "Decides now"), h("p", {}, h("b", { class: "big" }, policy), " ", part?.summary),
    h("p", { class: "note" }, part ? `${facts(part)}. ` : "", `Admission ${admission}. `, h("a", { href: "#/whatif" }, "What another would mean for the jobs that are here"))];
}

const facts = ({ optimises, source, goes_by_rates: rates }) => [optimises && `For ${optimises}`, rates && "goes by how fast jobs are on other numbers of GPUs", source].filter(Boolean).join("; ");

// The card of a goal, and how it shows those of `found` that belong to it: few, or `all`.
function goalCard(goal, cluster) {
  const lists = h("div"), size = h("small"), more = h("button", { type: "button", class: "small", "aria-expanded": "false" });
  const card = h("section", { class: "card third" }, h("h2", {}, goal[0], size), h("p", { class: "note" }, goal[2]), lists, more);
  let open = false, latest = null;
  const show = (found, all) => {
    latest = [found, all];
    const mine = found.filter((part) => goalOf(part) === goal), few = phone.matches ? 0 : FEW, whole = open || all;
    const byNeed = NEEDS.map((title, at) => [title, mine.filter((part) => Number(part.needs_durations) === at)]).filter(([, those]) => those.length);
    lists.replaceChildren(...(whole || few ? byNeed : []).flatMap(([title, those]) => [h("h3", {}, title), h("ul", { class: "choices" }, those.slice(0, whole ? Infinity : few).map((part) => choice(part, cluster, whole)))]));
    const hidden = byNeed.reduce((sum, [, those]) => sum + Math.max(0, those.length - few), 0);
    more.textContent = open ? "Show fewer" : `Show all ${number(mine.length)}`;
    more.hidden = all || !hidden;
    card.hidden = !mine.length;
    size.textContent = number(mine.length);
  };
  more.addEventListener("click", () => {
    open = !open;
    more.setAttribute("aria-expanded", open);
    show(...latest);
  });
  return [card, show];
}

function choice(part, cluster, whole) {
  const use = h("button", { type: "button", class: "small", "aria-label": `Use ${part.name}`, onclick: () => putInPlace({ policy: part.name, admission: cluster.admission }) }, "Use it");
  return h("li", {}, h("b", {}, part.name), cluster.policy.split(":")[0] === part.name ? h("span", { class: "quiet" }, "decides now") : use,
    h("p", {}, part.summary), whole ? h("p", { class: "note" }, facts(part)) : null);
}
