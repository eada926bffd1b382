// Elements, and how times and numbers are written.

// An element `tag` with properties (`on...`: listeners; `class`, `aria-...` and the like: attributes) and children.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !/^(list|form|role|width|height)$|-/.test(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Other children for `root`; the link that had the focus has it again.
export function renew(root, ...children) {
  const at = document.activeElement, links = () => [...root.querySelectorAll("a")].filter((link) => link.getAttribute("href") === at.getAttribute("href"));
  const place = root.contains(at) ? links().indexOf(at) : -1;
  root.replaceChildren(...children);
  if (place >= 0) links()[place]?.focus({ preventScroll: true });
}

// Of a run: seconds since its first submission, the moment that is shown.
let shownMoment = null;
export const setNow = (seconds) => { shownMoment = seconds; };

export const now = () => shownMoment ?? Date.now() / 1000;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clockSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayClock = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dayName = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const offset = -60 * new Date().getTimezoneOffset();
const dayOf = (seconds) => Math.floor((seconds + offset) / 86400);

// A moment: "14:20" today, "Tue 14:20" within a week, else "3 Dec 14:20".
export function moment(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (shownMoment !== null) return formatSeconds(seconds);
  const days = Math.abs(dayOf(seconds) - dayOf(now()));
  return (days === 0 ? clock : days < 7 ? dayClock : date).format(seconds * 1000);
}

const isNear = (seconds) => shownMoment === null && Math.abs(seconds - now()) < 600;

// A moment with its seconds where it is within ten minutes, as of jobs that start one after another.
export const exact = (seconds) => (isNear(seconds) ? clockSeconds.format(seconds * 1000) : moment(seconds));

// ["Tue 14:20", "15:10"]: two moments to the same precision, the day once; the second is empty where it reads as the first.
export function span(from, to) {
  const [first, last] = [from, to].map(isNear(from) && isNear(to) ? exact : moment), day = shownMoment === null ? first.lastIndexOf(" ") + 1 : 0;
  return [first, last === first ? "" : last.startsWith(first.slice(0, day)) ? last.slice(day) : last];
}

const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

// About `wanted` whole times between two moments, at most: on whole minutes, hours or days of the clock.
export function ticks(from, to, wanted) {
  const step = STEPS.find((each) => (to - from) / each <= wanted) ?? STEPS.at(-1), shift = shownMoment === null ? offset : 0;
  const found = [];
  for (let at = Math.ceil((from + shift) / step) * step - shift; at <= to; at += step) found.push(at);
  return found;
}

const FAR = 3, ROOM = 1.25;

// Where an axis from `from` on ends that shows `times`: at the last, or, where a few are far behind the others, soon after these.
export function axisEnd(times, from) {
  const sorted = Float64Array.from(times).sort(), last = sorted.at(-1) ?? from, most = sorted[Math.floor(0.9 * (sorted.length - 1))] ?? from;
  return last - from > FAR * (most - from) && most > from ? from + ROOM * (most - from) : last;
}

// Midnight says the day.
export function tickLabel(seconds) {
  if (shownMoment !== null) return formatSeconds(seconds);
  return (seconds + offset) % 86400 ? clock.format(seconds * 1000) : dayName.format(seconds * 1000);
}

// In whole seconds.
export const duration = (seconds) => (seconds === null || seconds === undefined ? "" : formatSeconds(Math.round(seconds)));

const figures = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
export const number = (value) => figures.format(value);

// A job's number as people write it: "1188_3" for a task of an array of an attached cluster (volvelle.model.job_number).
const ARRAYS = 2 ** 26;
export const jobId = (job) => (job < ARRAYS ? String(job) : `${job % ARRAYS}_${Math.floor(job / ARRAYS) - 1}`);

// `sweep[2]` of an array.
export const nameOf = ({ name, array_index: at }) => (at === null || at === undefined ? name : `${name}[${at}]`);

// Why a job waits or how it ended, without its state, which stands beside it.
export const reasonOf = ({ state, reason }) => (reason === state ? "" : reason.startsWith(`${state}: `) ? reason.slice(state.length + 2) : reason);

// The head of a view: its title, and what is done with it.
export const top = (title, ...tools) => h("div", { class: "top" }, h("h1", {}, title), h("div", { class: "tools" }, tools));

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// A server's reason as a sentence.
export const sentence = (text) => (text ? `${capital(text)}${/[.!?]$/.test(text) ? "" : "."}` : "");

// The same with links where it names jobs: "waits for job 59", "jobs 3, 4".
export function linked(text) {
  const parts = sentence(text).split(/(\bjobs? \d+(?:, \d+)*(?: and \d+)?)/);
  return parts.map((part, at) => (at % 2 ? part.split(/(\d+)/).map((each) => (/^\d+$/.test(each) ? h("a", { href: `#/job/${each}` }, each) : each)) : part));
}

// "1 node", "2 nodes"; "2 policies", where `plural` is said.
export const counted = (count, noun, plural = `${noun}s`) => `${number(count)} ${count === 1 ? noun : plural}`;

// The rows as a file; a text that a spreadsheet would take for a formula is quoted.
export function saveCsv(name, header, rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const text = [header, ...rows].map((row) => row.map(cell).join(",")).join("\r\n");
  const url = URL.createObjectURL(new Blob([text, "\r\n"], { type: "text/csv" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// What a view keeps from visit to visit; a browser that refuses to keep anything loses only that.
export function remembered(key, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`volvelle.${key}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(`volvelle.${key}`, JSON.stringify(value));
  } catch {
    // as above
  }
}
