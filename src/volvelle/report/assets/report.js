"use strict";
// Sortable tables, a read-out on the charts, and charts that answer each other. Everything shown is already in
// the page.

function formatSeconds(seconds) {
  const s = Math.abs(seconds), sign = seconds < 0 ? "-" : "";
  const two = (value) => String(value).padStart(2, "0");
  if (s > 0 && s < 0.1) return `${sign}${Number((1000 * s).toPrecision(3))}ms`;
  if (s < 10) return sign + Number(s.toPrecision(3)) + "s";
  if (s < 59.5) return sign + Math.round(s) + "s";
  if (s < 3599.5) { const w = Math.round(s); return `${sign}${Math.floor(w / 60)}m ${two(w % 60)}s`; }
  const minutes = Math.round(s / 60);
  if (minutes < 1440) return `${sign}${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
  const hours = Math.round(s / 3600);
  return `${sign}${Math.floor(hours / 24)}d ${two(hours % 24)}h`;
}

// Light or dark ------------------------------------------------------------------------------------

const THEMES = ["", "light", "dark"], THEME_KEY = "volvelle.theme";

// Tells all pictures of the page, which read colours only when they are drawn.
function setTheme(theme) {
  document.documentElement.classList.remove("light", "dark");
  if (theme) document.documentElement.classList.add(theme);
  dispatchEvent(new Event("theme"));
}

// A browser that keeps nothing loses only the choice.
function keptTheme(chosen) {
  try {
    if (chosen !== undefined) localStorage.setItem(THEME_KEY, chosen);
    return localStorage.getItem(THEME_KEY) ?? "";
  } catch {
    return chosen ?? "";
  }
}

const themes = document.createElement("select");
themes.className = "themes";
themes.setAttribute("aria-label", "Light or dark");
themes.append(...THEMES.map((theme) => new Option(`Theme: ${theme || "auto"}`, theme)));
themes.value = keptTheme();
themes.addEventListener("change", () => setTheme(keptTheme(themes.value)));
document.querySelector("body > header").append(themes);
setTheme(themes.value);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("theme")));

const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "status");
document.body.append(tip);

function showTip(text, event) {
  tip.textContent = text;
  tip.style.display = "block";
  const right = event.clientX + 16 + tip.offsetWidth > innerWidth;
  const below = event.clientY + 16 + tip.offsetHeight > innerHeight;
  tip.style.left = `${right ? Math.max(4, event.clientX - 12 - tip.offsetWidth) : event.clientX + 14}px`;
  tip.style.top = `${below ? event.clientY - 12 - tip.offsetHeight : event.clientY + 14}px`;
}

function hideTip() { tip.style.display = "none"; }

// Tables -------------------------------------------------------------------------------------------

function sortKey(row, column) {
  const cell = row.cells[column];
  return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
}

function compareKeys(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, undefined, { numeric: true });
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [sortKey(row, column), row]);
      rows.sort((a, b) => (descending ? -1 : 1) * compareKeys(a[0], b[0]));
      table.tBodies[0].append(...rows.map((entry) => entry[1]));
    });
  });
}

// Charts -------------------------------------------------------------------------------------------

function corners(path) {
  const points = [];
  let x = 0, y = 0;
  for (const [, command, rest] of path.matchAll(/([MLHV])([^MLHV]*)/g)) {
    const numbers = rest.trim().split(/[ ,]+/).map(Number);
    if (command === "H") x = numbers[0];
    else if (command === "V") y = numbers[0];
    else [x, y] = numbers;
    points.push([x, y]);
  }
  return points;
}

function heightAt(points, x) {
  if (!points.length || x < points[0][0] - 1 || x > points[points.length - 1][0] + 1) return null;
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= x) low = middle; else high = middle;
  }
  const [x0, y0] = points[low], [x1, y1] = points[high];
  return x1 > x0 ? y0 + (y1 - y0) * Math.min(1, Math.max(0, (x - x0) / (x1 - x0))) : y1;
}

function valueAt(axis, share) {
  return axis.log ? axis.low * (axis.high / axis.low) ** share : axis.low + (axis.high - axis.low) * share;
}

function writeValue(axis, value) {
  if (axis.quantity === "share") return `${Number((100 * value).toPrecision(3))} %`;
  if (axis.quantity !== "number") return formatSeconds(value);
  const text = Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  return axis.unit ? `${text} ${axis.unit}` : text;
}

// Runs and spans of time that are chosen in one chart are chosen in all of them.
const panels = [...document.querySelectorAll("g.panel")].map((group) => {
  const { box, x, y } = JSON.parse(group.dataset.readout);
  const lines = [...group.querySelectorAll("path[data-name]")].map((path) => ({ name: path.dataset.name, path }));
  return { group, box, across: x, upright: y, lines, svg: group.ownerSVGElement };
});

function pointsOf(line) { return (line.points ??= corners(line.path.getAttribute("d"))); }

function drawn(panel, name, attributes) {
  const element = document.createElementNS(panel.svg.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  panel.group.append(element);
  return element;
}

function placeIn(panel, event) {
  const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(panel.svg.getScreenCTM().inverse());
  return Math.min(1, Math.max(0, (x - panel.box[0]) / panel.box[2]));
}

// Times ---------------------------------------------------------------------------------------------

const timed = panels.filter((panel) => panel.across.quantity === "time");
for (const panel of timed) {
  const [, top, , height] = panel.box;
  panel.band = drawn(panel, "rect", { y: top, height, width: 0, fill: "var(--ink)", "fill-opacity": 0.12 });
}
const hinted = new Set(); // once for desks, once for phones
const means = new Map([...new Set(timed.map((panel) => panel.svg))].map((svg) => {
  const words = document.createElement("p");
  words.className = `note ${svg.classList.contains("narrow") ? "narrow" : "wide"}`;
  words.setAttribute("role", "status");
  if (!hinted.has(words.className)) words.textContent = "Drag over a span of time to have it marked, and its means told, in all charts.";
  hinted.add(words.className);
  svg.after(words);
  return [svg, words];
}));

function meanOver(panel, line, from, to) {
  const [left, top, width, height] = panel.box, steps = 400, heights = [];
  for (let step = 0.5; step < steps; step++) {
    const y = heightAt(pointsOf(line), left + width * (from + (to - from) * step / steps));
    if (y !== null) heights.push(valueAt(panel.upright, (top + height - y) / height));
  }
  return heights.length ? heights.reduce((sum, value) => sum + value, 0) / heights.length : null;
}

function markSpan(from, to) {
  for (const panel of timed) {
    panel.band.setAttribute("x", panel.box[0] + panel.box[2] * from);
    panel.band.setAttribute("width", panel.box[2] * (to - from));
  }
}

function tellSpan(from, to) {
  for (const [svg, words] of means) {
    const told = timed.filter((panel) => panel.svg === svg);
    const times = [from, to].map((share) => writeValue(told[0].across, valueAt(told[0].across, share)));
    const values = told.flatMap((panel) => panel.lines.map((line) => {
      const mean = meanOver(panel, line, from, to);
      return mean === null ? `${line.name} is over` : `${line.name} ${writeValue(panel.upright, mean)}`;
    }));
    const each = [...new Set(values)].join(", ");
    words.textContent = to > from ? `${times.join(" to ")}, means: ${each}. A click shows all again.` : "";
  }
  const axis = timed[0].across, seconds = [from, to].map((share) => valueAt(axis, share));
  dispatchEvent(new CustomEvent("span", { detail: to > from ? seconds : null }));
}

// Read-out and drag -----------------------------------------------------------------------------------

for (const panel of panels) {
  const [left, top, width, height] = panel.box, { across, upright, lines } = panel;
  const rule = drawn(panel, "path", { stroke: "var(--axis)", "pointer-events": "none" });
  const target = drawn(panel, "rect", { x: left, y: top, width, height, fill: "transparent" });
  let began = null;
  target.addEventListener("pointermove", (event) => {
    const share = placeIn(panel, event), x = left + share * width;
    rule.setAttribute("d", `M${x} ${top}V${top + height}`);
    if (began !== null) markSpan(Math.min(began, share), Math.max(began, share));
    const rows = [`${across.title}: ${writeValue(across, valueAt(across, share))}`];
    for (const line of lines) {
      const y = heightAt(pointsOf(line), x);
      if (y !== null) rows.push(`${line.name}: ${writeValue(upright, valueAt(upright, (top + height - y) / height))}`);
    }
    showTip(rows.join("\n"), event);
  });
  target.addEventListener("pointerleave", () => { hideTip(); rule.removeAttribute("d"); });
  if (!timed.includes(panel)) continue;
  target.style.touchAction = "pan-y";
  target.addEventListener("pointerdown", (event) => { target.setPointerCapture(event.pointerId); began = placeIn(panel, event); });
  target.addEventListener("pointercancel", () => { began = null; });
  target.addEventListener("pointerup", (event) => {
    if (began === null) return;
    const share = placeIn(panel, event), wide = Math.abs(share - began) > 0.01;
    const [from, to] = wide ? [Math.min(began, share), Math.max(began, share)] : [0, 0];
    began = null;
    markSpan(from, to);
    tellSpan(from, to);
  });
}

// Runs: a button for each, and a click on its name in a table or a chart --------------------------------

const rowHeads = [...document.querySelectorAll("tbody th[scope=row]")];
const apart = (head) => [head.textContent, ...head.textContent.split(", ")];  // runs that decide alike share a row
const inTables = new Set(rowHeads.flatMap(apart));
const names = [...new Set(panels.flatMap((panel) => panel.lines.map((line) => line.name)))].filter((name) => inTables.has(name));
const chosen = new Set();

function toggle(name) {
  if (!chosen.delete(name)) chosen.add(name);
  const fades = (name) => chosen.size > 0 && names.includes(name) && !chosen.has(name);
  for (const { group, lines } of panels) {
    const known = lines.filter((line) => names.includes(line.name));
    group.classList.toggle("faded", known.length > 0 && known.every((line) => fades(line.name)));
    for (const line of known) line.path.classList.toggle("faded", fades(line.name));
  }
  for (const head of rowHeads) {
    const known = apart(head).filter((name) => names.includes(name));
    head.parentElement.classList.toggle("faded", known.length > 0 && known.every(fades));
  }
  for (const text of named) text.classList.toggle("faded", fades(text.textContent));
  for (const button of buttons) button.setAttribute("aria-pressed", chosen.has(button.textContent));
}

const named = names.length < 2 ? [] : [...document.querySelectorAll("svg.chart text")].filter((text) => names.includes(text.textContent));
const buttons = names.length < 2 ? [] : names.map((name) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => toggle(name));
  return button;
});
if (buttons.length) {
  const bar = document.createElement("div");
  bar.className = "runs";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Show in all charts and tables");
  bar.append("Show: ", ...buttons);
  document.querySelector("main").prepend(bar);
  // A link to a part leads below the bar, which stays in sight.
  new ResizeObserver(() => { document.documentElement.style.scrollPaddingTop = `${bar.offsetHeight + 8}px`; }).observe(bar);
  for (const name of [...named, ...rowHeads.filter((head) => apart(head).some((name) => names.includes(name)))]) {
    name.style.cursor = "pointer";
    name.addEventListener("click", () => apart(name).filter((each) => names.includes(each)).forEach(toggle));
  }
}
