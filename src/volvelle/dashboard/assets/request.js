// What a job asks for: as a table, as the command that submits the same, and as a job's file.

import { capital, duration, h } from "./dom.js";
import { say } from "./dialogs.js";

const TITLES = { gpus: "GPUs", min_gpus: "Fewest GPUs", max_gpus: "Most GPUs", gpu_types: "GPU types", cpus: "CPUs", memory_gb: "Memory (GB)", estimate: "Takes about", at_once: "At once", upload: "Files" };
const TIMES = new Set(["estimate", "time_limit", "within", "takes", "restore", "grace"]);
const FIRST = ["gpus", "gpu_types", "estimate", "deadline"], SHOWN = new Set(["name", "command"]); // in the order of interest; those that stand elsewhere

// The table of a request, without its command.
export const requestTable = (request) => h("dl", { class: "facts" },
  [...FIRST.filter((key) => key in request), ...Object.keys(request).filter((key) => !FIRST.includes(key) && !SHOWN.has(key))].filter((key) => request[key] !== "" && request[key] !== null)
    .flatMap((key) => [h("dt", {}, TITLES[key] ?? capital(key.replaceAll("_", " "))), h("dd", {}, (WRITTEN[key] ?? written)(request[key], key))]));

const written = (value, key = "") => {
  if (TIMES.has(key)) return typeof value === "number" ? duration(value) : value;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map((each) => written(each)).join(", ");
  if (value === null || typeof value !== "object") return String(value);
  return Object.entries(value).map(([name, each]) => `${name.replaceAll("_", " ")} ${written(each, name)}`).join(", ");
};

// A job to wait for, as --after has it.
const awaited = ({ job, count = 1, end, each: alike }) => `${job}${count > 1 ? `-${job + count - 1}` : ""}${alike ? ":each" : end === "any" ? ":any" : ""}`;
const WRITTEN = {
  after: (values) => values.map(awaited).join(", "),
  deadline: (value) => (value.steps?.length ? written(value) : [`in ${written(value.within, "within")}`, value.kind === "soft" && "may be missed", value.accept_later && "a later one will do"].filter(Boolean).join(", ")),
};

const quoted = (word) => (/^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
const words = (command) => command.map(quoted).join(" ");
const LONG = 30;
const PLAIN = /^[\w./-]+( +[\w./:=@%+,-]+)*$/; // what a shell would only take apart

// A request has seconds, people write hours.
function time(value) {
  if (typeof value !== "number") return value;
  const [unit, seconds] = [["h", 3600], ["m", 60], ["s", 1]].find(([, each]) => value % each === 0) ?? ["s", 1];
  return `${value / seconds}${unit}`;
}

// The options of a key, as words.
const same = (key) => (value) => [`--${key.replaceAll("_", "-")}`, TIMES.has(key) ? time(value) : String(value)];
const each = (option, write = String) => (values) => values.flatMap((value) => [option, write(value)]);
const OPTIONS = {
  ...Object.fromEntries(["name", "gpus", "min_gpus", "max_gpus", "pool", "estimate", "time_limit", "priority", "retries", "directory", "container"].map((key) => [key, same(key)])),
  gpu_types: each("--gpu-type"), constraints: each("--constraint"), setup: each("--setup", words), notify: each("--notify", ({ to }) => to), after: each("--after", awaited),
  secrets: (value) => each("--secret")(Object.keys(value)),
  checkpoint: ({ path, grace, ...rest }) => (Object.keys(rest).length ? null : [...(path ? ["--checkpoint", path] : []), ...(grace ? ["--grace", time(grace)] : [])]),
  exclusive: (value) => (value ? ["--exclusive"] : []), preemptible: (value) => (value ? [] : ["--no-preempt"]),
  environment: (value) => each("--env")(Object.entries(value).map((pair) => pair.join("="))),
  array: (value, { at_once: atOnce }) => ["--array", atOnce ? `${value}%${atOnce}` : String(value)], at_once: () => [],
  deadline: ({ within, kind, steps, accept_later: later }) => (steps?.length ? null : ["--deadline", time(within), ...(kind === "soft" ? ["--soft"] : []), ...(later ? ["--accept-later"] : [])]),
};

// What to type for a request, and the keys of it that only a file can say.
export function commandOf({ command, ...rest }) {
  const options = [], left = [], [shell, flag, line] = command;
  for (const [key, value] of Object.entries(rest)) {
    const found = OPTIONS[key]?.(value, rest);
    if (found) options.push(...found); else left.push(key);
  }
  const typed = shell === "sh" && flag === "-c" && command.length === 3 && PLAIN.test(line) ? line : words(command);
  return [["volvelle submit", words(options), "--", typed].filter(Boolean).join(" "), left];
}

// A text and a button that copies it; a page that came without encryption can only select it.
export function copiable(label) {
  const text = h("pre", { class: "request", role: "region", tabIndex: 0, "aria-label": label });
  const copy = async () => {
    getSelection().selectAllChildren(text);
    const done = await navigator.clipboard?.writeText(text.textContent).then(() => true, () => false);
    say(done ? `${label}: copied.` : `${label}: selected; Ctrl-C copies it.`);
  };
  return { text, button: h("button", { type: "button", class: "small", "aria-label": `Copy: ${label}`, onclick: copy }, "Copy") };
}

// The request as a command, with its title, and what that leaves out.
export function asCommand(title = "h3") {
  const { text, button } = copiable("As a command"), note = h("p", { class: "note", hidden: true });
  const show = (request) => {
    const [typed, left] = commandOf(request), one = left.length === 1;
    text.replaceChildren(...typed.split(/( )/).map((word) => (word.trim() && word.length < LONG ? h("span", { class: "word" }, word) : word))); // no option is broken
    note.hidden = !left.length;
    note.textContent = `Without ${left.join(", ")}, which ${one ? "has no option" : "have no options"}: a job's file says ${one ? "it" : "them"}.`;
  };
  return { parts: [h(title, {}, "As a command", h("small", {}, button)), text, note], show };
}
