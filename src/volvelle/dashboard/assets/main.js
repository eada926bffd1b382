// The page: who is logged in, which view is open, and the keys.

import { ApiError, get, logIn, logOut, setMoment, whenLoggedOut } from "./api.js";
import { Cluster } from "./cluster.js";
import { counted, duration, h, moment, now, number, remembered, setNow, svg } from "./dom.js";
import { say, sayError, showKeys } from "./dialogs.js";
import { history as past } from "./history.js";
import { job } from "./job.js";
import { nodes } from "./nodes.js";
import { needingALook, overview } from "./overview.js";
import { policies } from "./policies.js";
import { queue } from "./queue.js";
import { shares } from "./shares.js";
import { submit } from "./submit.js";
import { timeline } from "./timeline.js";
import { whatif } from "./whatif.js";

const VIEWS = {
  overview: ["Overview", overview], queue: ["Queue", queue], timeline: ["Timeline", timeline], submit: ["Submit", submit],
  nodes: ["Nodes", nodes], shares: ["Shares", shares], history: ["History", past], whatif: ["What if", whatif], policies: ["Policies", policies],
};
const ICONS = {
  overview: "M2 13.5h12M4 11V8M8 11V3M12 11V6", queue: "M2 4h12M2 8h9M2 12h6", timeline: "M2 4h6M5 8h8M8 12h6", submit: "M8 3v10M3 8h10",
  nodes: "M2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 9.5h4v4h-4zM9.5 9.5h4v4h-4z", shares: "M8 2a6 6 0 1 0 6 6H8z",
  history: "M8 4.5V8l2.5 1.5M2.5 8a5.5 5.5 0 1 0 2-4.2M2.2 2.5v2.7h2.7", whatif: "M2 12c5 0 4-8 9-8M10 2l3 2-3 2M2 12h11", policies: "M2.5 2v11.5H14M6 5v.1M8 8v.1M11 10v.1",
  more: "M3 8v.1M8 8v.1M13 8v.1",
};
const COUNTED = new Set(["overview", "queue"]);
const icon = (name) => svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
const main = document.getElementById("main");
let cluster = null, session = null, view = null, lastSeen = 0;

// Views that the session has no answers for.
const hidden = () => (session.reads ? ["submit", "policies", ...(session.role === "operator" ? [] : ["whatif"])] : session.run ? ["submit", "shares", "whatif", "policies"] : session.role === "operator" ? [] : ["whatif", "policies"]);

// On phones the first views stand in the bar, the others behind "More".
const IN_BAR = 4;

const go = (where) => { location.hash = where; };

function show() {
  if (!session) return;
  const [path, query] = (location.hash.startsWith("#/") ? location.hash.slice(2) : "").split("?"), [asked, rest] = path.split("/");
  if (asked === "jobs") { // as the API has it
    location.replace(rest ? `#/job/${rest}` : "#/queue");
    return;
  }
  const known = asked === "job" || Object.hasOwn(VIEWS, asked), name = known ? asked : "overview";
  const shown = name === "job" ? job : VIEWS[name][1];
  view?.close?.();
  hideTip();
  main.replaceChildren();
  if (session.reads) main.append(h("p", { class: "reads", role: "note" }, h("b", {}, "Read only."), ` ${session.reads} decides; Volvelle reads it and changes nothing.`));
  say(known || !asked ? "" : `There is no view ${asked}; this is the overview.`, !known);
  view = shown(main, { cluster, session, go, path: rest, query: new URLSearchParams(query) });
  document.title = `${main.querySelector("h1").textContent} – Volvelle`;
  for (const link of document.querySelectorAll("#views a")) {
    const current = link.hash === `#/${name}`;
    if (current) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  unfold(false);
}

// Where the cluster stands, beside every view: whether it answers, its size, and how many jobs there are and need a look.
function showPlace() {
  const { nodes, jobs, connected, policy } = cluster, gpus = [...nodes.values()].reduce((sum, node) => sum + node.gpus, 0);
  if (!session.run) {
    document.getElementById("place").replaceChildren(
      h("b", { class: connected ? "live" : "live out" }, connected ? "Live" : `Not reached since ${moment(lastSeen)}`),
      h("span", {}, `${counted(nodes.size, cluster.unit)}, ${counted(gpus, "GPU")}`), h("span", {}, session.reads || `Policy ${policy}`));
  }
  const counts = { queue: jobs.size, overview: needingALook(jobs.values(), nodes.values()) };
  for (const [name, count] of Object.entries(counts)) document.querySelector(`#views a[href="#/${name}"] small`).textContent = count ? number(count) : "";
}

const unfold = (open) => {
  document.querySelector("#views .rest")?.classList.toggle("open", open);
  document.querySelector("#views .more")?.setAttribute("aria-expanded", open);
};

async function open(who) {
  session = { ...who, run: who.role === "run" };
  cluster = new Cluster(session.titles?.node);
  if (session.run) turnTo(session.end / 2);
  try {
    await cluster.open(!session.run);
  } catch (error) {
    return sayError(error);
  }
  let told = true;
  cluster.listen(() => {
    if (cluster.connected !== told) say(cluster.connected ? "" : "The server cannot be reached; what is shown may be old.", true);
    told = cluster.connected;
    document.body.classList.toggle("old", !told);
    if (told) lastSeen = now();
    showPlace();
    view?.update();
  });
  cluster.connected = true;
  const bar = document.getElementById("views");
  const offered = Object.entries(VIEWS).filter(([name]) => !hidden().includes(name));
  const links = offered.map(([name, [title]]) => h("a", { href: `#/${name}`, class: name }, icon(name), title, COUNTED.has(name) ? h("small", { "aria-hidden": "true" }) : null));
  bar.replaceChildren(...links.slice(0, IN_BAR),
    h("button", { type: "button", class: "more", "aria-expanded": "false", onclick: ({ currentTarget }) => unfold(currentTarget.getAttribute("aria-expanded") !== "true") }, icon("more"), "More"),
    h("div", { class: "rest" }, links.slice(IN_BAR)));
  document.getElementById("session").replaceChildren(
    ...(session.run ? moments() : [
      h("span", { class: "who" }, `${session.user}${session.role === "operator" ? ", operator" : ""}`),
      h("button", { type: "button", onclick: () => logOut().then(askForToken) }, "Log out")]),
    h("button", { type: "button", class: "keys", onclick: showKeys, title: "Keys (?)", "aria-label": "Keys" }, "?"));
  showPlace();
  show();
  performance.mark("shown");
  return undefined;
}

function turnTo(at) {
  setMoment(at);
  setNow(at);
}

// Of a run: its name, and a slider over its time.
function moments() {
  const shown = h("output", {}, duration(session.end / 2));
  const slider = h("input", { type: "range", min: 0, max: 1000, value: 500, "aria-label": "Moment of the run" });
  slider.addEventListener("input", () => {
    turnTo(session.end * slider.value / 1000);
    shown.textContent = duration(session.end * slider.value / 1000);
    cluster.load().catch(sayError);
  });
  return [h("span", { class: "who" }, session.user), slider, shown];
}

function askForToken() {
  cluster?.close();
  view?.close?.();
  [session, view, cluster] = [null, null, null];
  for (const name of ["views", "place"]) document.getElementById(name).replaceChildren();
  document.getElementById("session").replaceChildren();
  const token = h("input", { type: "password", autocomplete: "current-password", required: true });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const onsubmit = async (event) => {
    event.preventDefault();
    try {
      await open(await logIn(token.value.trim()));
    } catch (error) {
      wrong.textContent = error.message;
    }
  };
  main.replaceChildren(h("h1", {}, "Log in"), h("form", { class: "login", onsubmit },
    h("label", { class: "field" }, "Token", token), h("button", { type: "submit", class: "main" }, "Log in"), wrong,
    h("p", { class: "note" }, "Your operator makes one with volvelle token create; that of whoever runs the server is in the file token of its folder. It is sent once; a cookie of eight hours replaces it.")));
  token.focus();
}

// Keys -----------------------------------------------------------------------------------------------

const GOES = { o: "overview", q: "queue", t: "timeline", u: "submit", n: "nodes", s: "shares", h: "history", w: "whatif", p: "policies" };
let going = false;

document.addEventListener("keydown", (event) => {
  if (!session || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (going && event.key in GOES && !hidden().includes(GOES[event.key])) go(`#/${GOES[event.key]}`);
  else if (event.key === "?") showKeys();
  else if (event.key === "/" && main.querySelector(".filter")) main.querySelector(".filter").focus();
  else {
    going = event.key === "g";
    return;
  }
  going = false;
  event.preventDefault();
});

addEventListener("hashchange", () => { if (location.hash === "#main") return; show(); (main.querySelector("table[role=grid]") ?? main).focus({ preventScroll: true }); scrollTo(0, 0); });
addEventListener("theme", () => view?.update());
whenLoggedOut(() => { askForToken(); say("The session is over.", true); });

const known = document.documentElement.dataset.run !== undefined || remembered("key", "");
if (!known) askForToken();
else get("/v1/session").then(open, (error) => { if (error instanceof ApiError && error.status === 401) askForToken(); else sayError(error); });
