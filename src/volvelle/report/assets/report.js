"use strict";
// Sortable tables and a read-out on the charts. Everything shown is already in the page.

function formatSeconds(seconds) {
  const s = Math.abs(seconds), sign = seconds < 0 ? "-" : "";
  const two = (value) => String(value).padStart(2, "0");
  if (s < 10) return sign + Number(s.toPrecision(3)) + "s";
  if (s < 59.5) return sign + Math.round(s) + "s";
  if (s < 3599.5) { const w = Math.round(s); return `${sign}${Math.floor(w / 60)}m ${two(w % 60)}s`; }
  const minutes = Math.round(s / 60);
  if (minutes < 1440) return `${sign}${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
  const hours = Math.round(s / 3600);
  return `${sign}${Math.floor(hours / 24)}d ${two(hours % 24)}h`;
}

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

for (const panel of document.querySelectorAll("g.panel")) {
  const { box: [left, top, width, height], x: across, y: upright } = JSON.parse(panel.dataset.readout);
  const svg = panel.ownerSVGElement, space = svg.namespaceURI;
  const target = document.createElementNS(space, "rect");
  for (const [name, value] of Object.entries({ x: left, y: top, width, height, fill: "transparent" })) target.setAttribute(name, value);
  const rule = document.createElementNS(space, "path");
  rule.setAttribute("stroke", "var(--axis)");
  rule.setAttribute("pointer-events", "none");
  panel.append(rule, target);
  let lines = null;
  target.addEventListener("pointermove", (event) => {
    lines ??= [...panel.querySelectorAll("path[data-name]")].map((path) => [path.dataset.name, corners(path.getAttribute("d"))]);
    const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
    rule.setAttribute("d", `M${x} ${top}V${top + height}`);
    const rows = [`${across.title}: ${writeValue(across, valueAt(across, (x - left) / width))}`];
    for (const [name, points] of lines) {
      const y = heightAt(points, x);
      if (y !== null) rows.push(`${name}: ${writeValue(upright, valueAt(upright, (top + height - y) / height))}`);
    }
    showTip(rows.join("\n"), event);
  });
  target.addEventListener("pointerleave", () => { hideTip(); rule.removeAttribute("d"); });
}
