// A table of many thousand rows, of which only those in sight are elements.

import { h, remember, remembered, saveCsv } from "./dom.js";

const ROW = 34, CARD_LINE = 24, CARD_EDGE = 22, OVERSCAN = 8;

// A phone shows each row as a card (dashboard.css): two cells a line; `CARD_...` are sizes from there.
const phone = matchMedia("(max-width: 820px)");

// columns: {name, title, value(row)?, text(row)?, number?, wide?, line?, state?, plain?, link(row)?, late(row)?, quiet(row)?,
// draw(row)?, head()?}; `value` sorts and goes into CSV files. wide: long texts are cut. line: alone in its line of a card.
// state: its text is a state. plain: cards leave out its title. late, quiet: whether the row needs a look, or its text is a
// guess. draw: elements instead of `text`, which says when they differ; such a column is not sorted by, and one without `value`
// is in no file; `head` draws its title.
// optional: not shown where no row has a value. gaps: cards leave it out where it is empty, as they do optional ones.
// time: `value` is a moment, which files have as an ISO time.
// key(row): identifies a row. open(row): what Enter and a click do. select: whether rows are chosen. groups(rows): [[title, rows],
// ...], the order as long as no column is sorted by. empty(): what is said where there is no row.
export class Table {
  constructor({ name, label, columns, key, open = null, select = false, onselect = () => {}, sort = "", hidden = [], groups = null, empty = null }) {
    Object.assign(this, { name, columns, key, open, select, onselect, groups, empty });
    this.sort = remembered(`${name}.sort`, sort);
    this.hidden = new Set(remembered(`${name}.hidden`, hidden));
    this.absent = ""; // optional columns without a value, by their names
    this.rows = [];
    this.lines = []; // the rows, and on desks the titles of their groups
    this.tops = new Float64Array(1);
    this.selected = new Set();
    this.active = null;
    this.pointed = false; // a click takes its own row
    this.pool = [];
    this.head = h("tr", { role: "row", "aria-rowindex": 1 });
    this.above = h("tr", { "aria-hidden": "true", class: "space" }, h("td"));
    this.below = h("tr", { "aria-hidden": "true", class: "space" }, h("td"));
    this.body = h("tbody", { role: "rowgroup" });
    this.grid = h("table", { role: "grid", "aria-label": label, "aria-multiselectable": select ? "true" : null },
      h("thead", { role: "rowgroup" }, this.head), this.body);
    this.grid.tabIndex = 0;
    this.element = h("div", { class: open ? "scroll opens" : "scroll" }, this.grid);
    this.nothing = h("p", { class: "empty", hidden: true });
    this.element.append(this.nothing);
    this.height = this.scrolled = 0; // as last seen: to ask for them while drawing would lay the page out twice
    this.element.addEventListener("scroll", () => { this.scrolled = this.element.scrollTop; this.draw(); }, { passive: true });
    this.grid.addEventListener("focus", () => { if (this.active === null && this.rows.length && !this.pointed) this.moveTo(0); });
    this.grid.addEventListener("pointerdown", () => { this.pointed = true; });
    this.grid.addEventListener("keydown", (event) => this.press(event));
    this.body.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => { this.height = this.element.clientHeight; this.measure(); this.draw(); }).observe(this.element);
    this.drawHead();
  }

  // Where each line begins, and where the last one ends; a card is as high as what it holds.
  measure() {
    const tops = this.tops = new Float64Array(this.lines.length + 1);
    const columns = this.shown, some = columns.filter((column) => column.gaps || column.optional);
    const halves = (of) => of.reduce((sum, column) => sum + (column.line ? 2 : 1), 0), all = halves(columns);
    const height = (row) => Math.ceil((all - halves(some.filter((column) => !isFull(column, row)))) / 2) * CARD_LINE + CARD_EDGE;
    this.lines.forEach((line, at) => { tops[at + 1] = tops[at] + (phone.matches ? height(line) : ROW); });
  }

  // The line at a place, pixels below the first one's top.
  lineAt(place) {
    let low = 0, high = this.lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= place) low = middle + 1; else high = middle;
    }
    return low;
  }

  get shown() { return this.columns.filter(({ name, optional }) => !this.hidden.has(name) && !(optional && this.absent.split(" ").includes(name))); }

  // The rows, already filtered; the table sorts them.
  show(rows) {
    this.rows = rows;
    const absent = this.columns.filter((column) => column.optional && !rows.some((row) => isFull(column, row))).map(({ name }) => name).join(" ");
    if (absent !== this.absent) {
      this.absent = absent;
      this.drawHead();
    }
    const descending = this.sort.startsWith("-"), column = this.columns.find((each) => each.name === this.sort.replace("-", ""));
    if (column) {
      const sign = descending ? -1 : 1;
      this.rows = rows.map((row) => [column.value(row), row]).sort((a, b) => sign * compare(a[0], b[0], sign)).map(([, row]) => row);
    }
    const groups = column || !this.groups ? [["", this.rows]] : this.groups(rows).filter(([, found]) => found.length);
    this.rows = groups.flatMap(([, found]) => found);
    this.lines = groups.flatMap(([title, found]) => (title && !phone.matches ? [{ title }, ...found] : found));
    this.measure();
    if (this.selected.size) {
      const present = new Set(this.rows.map(this.key));
      for (const key of this.selected) if (!present.has(key)) this.selected.delete(key);
    }
    const none = this.empty && !this.rows.length;
    this.nothing.textContent = none ? this.empty() : "";
    [this.nothing.hidden, this.grid.hidden] = [!none, none];
    this.grid.setAttribute("aria-rowcount", this.lines.length + 1);
    this.shown.forEach((each, at) => {
      const made = each.head?.(), shown = this.titles[at].firstChild;
      if (made && !made.isEqualNode(shown)) this.titles[at].replaceChildren(made);
    });
    this.draw();
  }

  drawHead() {
    this.titles = this.shown.map((column) => {
      if (column.draw) return h("th", { role: "columnheader", scope: "col", class: styleOf(column), "aria-label": column.head ? column.title : null }, column.head ? null : column.title);
      const way = this.sort === column.name ? "ascending" : this.sort === `-${column.name}` ? "descending" : null;
      const sort = () => this.sortBy(way === "ascending" ? `-${column.name}` : way && this.groups ? "" : column.name);
      return h("th", { role: "columnheader", scope: "col", class: styleOf(column), "aria-sort": way },
        h("button", { type: "button", onclick: sort }, column.title));
    });
    const cells = [...this.titles];
    if (this.select) {
      const all = h("input", { type: "checkbox", "aria-label": "Select all", onchange: () => this.selectAll(all.checked) });
      cells.unshift(h("th", { role: "columnheader", class: "pick" }, all));
    }
    this.head.replaceChildren(...cells);
    this.pool = [];
    this.body.replaceChildren(this.above, this.below);
  }

  sortBy(sort) {
    this.sort = sort;
    remember(`${this.name}.sort`, sort);
    this.drawHead();
    this.show(this.rows);
  }

  hide(column, hidden) {
    this.hidden[hidden ? "add" : "delete"](column);
    remember(`${this.name}.hidden`, [...this.hidden]);
    this.drawHead();
    this.show(this.rows);
  }

  selectAll(all) {
    this.selected = new Set(all ? this.rows.map(this.key) : []);
    this.draw();
    this.onselect();
  }

  // Only rows in sight; their elements are used again, and only what differs is written.
  draw() {
    const height = this.height || innerHeight;
    const first = Math.max(0, this.lineAt(this.scrolled) - OVERSCAN);
    const last = Math.min(this.lines.length, this.lineAt(this.scrolled + height) + OVERSCAN);
    const columns = this.shown, width = columns.length + (this.select ? 1 : 0);
    while (this.pool.length < last - first) {
      const row = this.makeRow(columns);
      this.pool.push(row);
      this.below.before(row.element);
    }
    for (const spare of this.pool.splice(Math.max(0, last - first))) spare.element.remove();
    this.pool.forEach((row, at) => this.write(row, this.lines[first + at], first + at, columns));
    this.space(this.above, this.tops[first], width);
    this.space(this.below, this.tops.at(-1) - this.tops[last], width);
    const active = this.pool.find((row) => row.key === this.active);
    if (active) this.grid.setAttribute("aria-activedescendant", active.element.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  space(row, height, width) {
    row.hidden = !height;
    row.firstChild.colSpan = width;
    row.firstChild.style.height = `${height}px`;
  }

  makeRow(columns) {
    const row = { element: h("tr", { role: "row" }), cells: [], texts: [] };
    if (this.select) {
      row.check = h("input", { type: "checkbox", tabIndex: -1, "aria-label": "Select the row" });
      row.element.append(h("td", { role: "gridcell", class: "pick" }, row.check));
    }
    row.title = h("td", { role: "gridcell", class: "title", colSpan: columns.length + (this.select ? 1 : 0) });
    for (const column of columns) {
      const holder = column.link ? h("a", { tabIndex: -1 }) : column.state || column.wide ? h("span", { class: column.state ? "chip" : "cut" }) : null;
      const cell = h("td", { role: "gridcell", class: styleOf(column), "data-title": column.plain ? null : column.title }, holder);
      row.element.append(cell);
      row.cells.push(holder ?? cell);
    }
    row.element.append(row.title);
    return row;
  }

  write(row, of, at, columns) {
    const title = of.title ?? "";
    row.element.classList.toggle("group", title !== "");
    row.title.hidden = !title;
    if (row.at !== at) row.element.setAttribute("aria-rowindex", at + 2);
    row.at = at;
    if (title) {
      if (row.title.textContent !== title) row.title.textContent = title;
      row.key = undefined;
      row.element.removeAttribute("id");
      row.element.classList.remove("active");
      row.element.removeAttribute("aria-selected");
      return;
    }
    const key = this.key(of), other = row.key !== key;
    row.key = key;
    if (other) row.element.id = `${this.name}-${key}`;
    row.element.classList.toggle("active", key === this.active);
    if (this.select) {
      const chosen = this.selected.has(key);
      row.check.checked = chosen;
      if (row.element.ariaSelected !== String(chosen)) row.element.ariaSelected = chosen;
    }
    columns.forEach((column, index) => {
      const text = String((column.text ?? column.value)(of) ?? "");
      if (column.link && other) row.cells[index].href = column.link(of);
      for (const style of ["late", "quiet"]) if (column[style]) row.cells[index].classList.toggle(style, column[style](of));
      if (row.texts[index] === text) return;
      row.texts[index] = text;
      if (column.draw) row.cells[index].replaceChildren(column.draw(of)); else row.cells[index].textContent = text;
      if (column.state) row.cells[index].dataset.state = text;
      if (column.wide) row.cells[index].title = text;
    });
  }

  click(event) {
    const row = this.pool.find((each) => each.element.contains(event.target));
    if (!row || row.key === undefined) return;
    this.active = row.key;
    if (this.select && event.target.closest(".pick")) this.toggle(row.key);
    else if (this.open && !event.target.closest("a") && getSelection().isCollapsed) this.open(this.rows.find((each) => this.key(each) === row.key));
    this.draw();
  }

  toggle(key) {
    if (!this.selected.delete(key)) this.selected.add(key);
    this.draw();
    this.onselect();
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.rows.findIndex((row) => this.key(row) === this.active);
    const page = Math.max(1, Math.floor(this.element.clientHeight * this.lines.length / this.tops.at(-1)) - 2), end = this.rows.length - 1;
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, j: at + 1, k: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: end };
    if (event.key in moves && end >= 0) {
      this.moveTo(Math.min(end, Math.max(0, moves[event.key])));
    } else if (event.key === "Enter" && at >= 0 && this.open) {
      this.open(this.rows[at]);
    } else if (event.key === " " && at >= 0 && this.select) {
      this.toggle(this.active);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  moveTo(at) {
    this.active = this.key(this.rows[at]);
    const line = this.lines.indexOf(this.rows[at]), top = this.tops[line], bottom = this.tops[line + 1];
    const head = this.head.offsetHeight, sight = this.element.clientHeight - head;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    if (bottom > this.element.scrollTop + sight) this.element.scrollTop = bottom - sight;
    this.scrolled = this.element.scrollTop;
    this.draw();
  }

  csv() {
    const columns = this.shown.filter((each) => each.value);
    saveCsv(`${this.name}.csv`, columns.map((each) => each.title), this.rows.map((row) => columns.map((each) => fileCell(each, row))));
  }

  // A menu of the columns, and a button for the file.
  get tools() {
    const boxes = this.columns.map((column) => {
      const box = h("input", { type: "checkbox", checked: !this.hidden.has(column.name), onchange: () => this.hide(column.name, !box.checked) });
      return h("label", {}, box, ` ${column.title}`);
    });
    return [
      h("details", { class: "menu desk" }, h("summary", {}, "Columns"), h("div", {}, boxes)),
      h("button", { type: "button", class: "desk", onclick: () => this.csv() }, "CSV"),
    ];
  }
}

const styleOf = (column) => [...["number", "wide", "line"].filter((each) => column[each]), column.gaps || column.optional ? "gaps" : "", `of-${column.name}`].filter(Boolean).join(" ");

function isFull({ text, value }, row) {
  const found = (text ?? value)(row);
  return found !== null && found !== undefined && found !== "";
}

// Moments as dates, except those of a run, which are seconds since it began.
function fileCell(column, row) {
  const value = column.value(row);
  return column.time && value && document.documentElement.dataset.run === undefined ? new Date(1000 * value).toISOString() : value;
}

// Numbers, then texts; what is missing comes last either way.
function compare(a, b, sign) {
  const none = (value) => value === null || value === undefined || value === "";
  if (none(a) || none(b)) return none(a) && none(b) ? 0 : none(a) ? sign : -sign;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return a < b ? -1 : a > b ? 1 : 0;
}
