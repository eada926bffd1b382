"use strict";
// The Gantt chart: bars on lanes (GPUs) or on jobs, drawn on a canvas that is zoomed and panned.

// The chart in `root` of `data`; a page that follows a live cluster gives new data to the `update` it returns.
// Of such data, besides: epoch (seconds of tick 0; then times are of the clock), now (ticks),
// bars.predicted (1 for a bar that is foreseen), bars.cut (1 for one that another is expected to end), jobs.more (what
// else a read-out says); and bars.from and jobs.submitted for the running sums of bars.start and jobs.submit.
// `open`: what a click on the job in a row does. `laneName(lane, each)`: what a lane is called where each has its name, or
// where there is no room for that; empty: it has none.
// `userColors()`: series that users have elsewhere.
function ganttChart(root, data, { open = null, laneName = null, userColors = () => new Map() } = {}) {
  const canvas = root.querySelector("canvas"), pen = canvas.getContext("2d");
  const rowsChoice = root.querySelector("[name=rows]"), colorChoice = root.querySelector("[name=color]");
  const legend = root.querySelector(".legend");
  const margin = { left: 84, top: 8, right: 10, bottom: 42 };

  const nowHeight = 18, labelEdge = 26, clockBottom = 24; // times of the clock need no title
  let jobs, bars, count, start, submit, cut, reach, views, view, longest;
  const hand = { picked: -1, pointed: -1 }; // rows of a job in hand, and of one under the pointer; -1: none
  const summed = (differences) => { let at = 0; return Float64Array.from(differences, (step) => (at += step)); };
  const named = (column, row) => column.names[column.of.length ? column.of[row] : 0] ?? "";

  // Rows: the lane and height of every bar under the two views.
  function take(given) {
    data = given;
    jobs = data.jobs;
    bars = data.bars;
    count = bars.job.length;
    start = bars.from ?? summed(bars.start);
    submit = jobs.submitted ?? summed(jobs.submit);
    views = {
      gpus: { rows: data.lanes, lane: bars.lane, height: bars.height, unit: data.placed ? "GPU" : "GPUs in use", per: data.perGpu },
      jobs: { rows: jobs.id.length, lane: bars.job, height: null, unit: "Job", per: 1 },
    };
    view = views[rowsChoice.value];
    colorOf = new Uint8Array(count);
    const latest = new Float64Array(jobs.id.length).fill(-Infinity);
    reach = new Float64Array(jobs.id.length).fill(data.now ?? data.span);
    for (let i = 0; i < count; i++) {
      latest[bars.job[i]] = Math.max(latest[bars.job[i]], start[i]);
      reach[bars.job[i]] = Math.max(reach[bars.job[i]], start[i] + bars.length[i]);
    }
    cut = Uint8Array.from({ length: count }, (_, i) => bars.cut?.[i] || latest[bars.job[i]] > start[i] + bars.length[i]);
    if (hand.picked >= jobs.id.length) hand.picked = -1;
    longest = "";
    for (let at = 0; laneName && at < data.lanes; at++) if (laneName(at, true).length > longest.length) longest = laneName(at, true);
  }

  // Colours: the most frequent seven groups have their own, the rest share the last.
  let colorOf, groups = [], roles = [];
  const groupOf = {
    class: (row) => named(jobs.class, row), pool: (row) => named(jobs.pool, row) || "no pool",
    user: (row) => named(jobs.user, row) || "no user", width: (row) => `${jobs.gpus[row]} GPU${jobs.gpus[row] === 1 ? "" : "s"}`,
    status: (row) => named(jobs.status, row),
  };

  function recolor() {
    const of = groupOf[colorChoice.value], tally = new Map();
    for (let i = 0; i < count; i++) { const name = of(bars.job[i]); tally.set(name, (tally.get(name) || 0) + 1); }
    groups = [...tally].sort((a, b) => b[1] - a[1]).slice(0, tally.size > 8 ? 7 : 8).map((entry) => entry[0]);
    groups.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const place = new Map(groups.map((name, at) => [name, at]));
    if (tally.size > 8) groups.push(`${tally.size - 7} others`);
    for (let i = 0; i < count; i++) colorOf[i] = place.get(of(bars.job[i])) ?? 7;
    const given = new Map(colorChoice.value === "user" ? [...userColors()].filter(([name]) => place.has(name)) : []), taken = [...given.values()];
    const left = [1, 2, 3, 4, 5, 6, 7, 8].map((at) => `series-${at}`).filter((role) => !taken.includes(role));
    roles = groups.map((name) => (colorChoice.value === "status" && place.has(name) ? `state-${name}` : given.get(name) ?? left.shift()));
    legend.replaceChildren(...groups.map((name, at) => {
      const item = document.createElement("li"), swatch = document.createElement("i");
      swatch.style.background = `var(--${roles[at]})`;
      item.append(swatch, name);
      return item;
    }));
  }

  // The window on time (in ticks) and on rows.
  const shown = { left: 0, right: 1, top: 0, bottom: 1 };
  const plot = { x: margin.left, y: margin.top, width: 1, height: 1 };
  const toX = (time) => plot.x + (time - shown.left) / (shown.right - shown.left) * plot.width;
  const toY = (row) => plot.y + (row - shown.top) / (shown.bottom - shown.top) * plot.height;
  const toTime = (x) => shown.left + (x - plot.x) / plot.width * (shown.right - shown.left);
  const toRow = (y) => shown.top + (y - plot.y) / plot.height * (shown.bottom - shown.top);

  function hold(low, high, most, least) {
    const size = Math.min(most, Math.max(least, high - low));
    const from = Math.min(most - size, Math.max(0, low + (high - low - size) / 2));
    return [from, from + size];
  }

  function settle() {
    [shown.left, shown.right] = hold(shown.left, shown.right, data.span, Math.min(data.span, 20));
    [shown.top, shown.bottom] = hold(shown.top, shown.bottom, view.rows, Math.min(view.rows, 4));
    redraw();
  }

  function zoom(axis, factor, at) {
    const [low, high] = axis === "time" ? ["left", "right"] : ["top", "bottom"];
    shown[low] = at - (at - shown[low]) * factor;
    shown[high] = at + (shown[high] - at) * factor;
  }

  function pan(time, rows) {
    const width = shown.right - shown.left, height = shown.bottom - shown.top;
    shown.left = Math.min(data.span - width, Math.max(0, shown.left + time));
    shown.top = Math.min(view.rows - height, Math.max(0, shown.top + rows));
    shown.right = shown.left + width;
    shown.bottom = shown.top + height;
  }

  function everything() {
    Object.assign(shown, { left: 0, right: data.span, top: 0, bottom: view.rows });
    settle();
  }

  // Drawing
  let pending = false;
  function redraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  }

  function draw() {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return; // it was left, or is folded
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const top = data.now === undefined ? margin.top : nowHeight, left = leftMargin(width);
    Object.assign(plot, { x: left, y: top, width: width - left - margin.right, height: height - top - (data.epoch === undefined ? margin.bottom : clockBottom) });
    const style = getComputedStyle(document.documentElement), color = (name) => style.getPropertyValue(`--${name}`);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = color("paper");
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = color("panel");
    pen.fillRect(plot.x, plot.y, plot.width, plot.height);
    drawTimeAxis(color);
    drawRowAxis(color);
    pen.save();
    pen.beginPath();
    pen.rect(plot.x, plot.y, plot.width, plot.height);
    pen.clip();
    if (view === views.jobs) drawWaits(color("axis"));
    for (let group = 0; group < groups.length; group++) drawBars(group, color(roles[group]), color("panel"));
    drawLabels(color("paper"), color("ink"));
    drawCuts(color("ink"));
    drawBeyond(color("ink"));
    for (const row of new Set(Object.values(hand))) if (row >= 0) drawPicked(row, color("ink"));
    pen.restore();
    if (data.now !== undefined) drawNow(color("ink"), color("paper"));
  }

  // As wide as the longest name of a row, within bounds.
  function leftMargin(width) {
    if (view !== views.gpus || !laneName) return margin.left;
    return Math.max(margin.left, Math.min(0.3 * width, pen.measureText(longest).width + labelEdge));
  }

  function drawTimeAxis(color) {
    const seconds = (shown.right - shown.left) * data.tick, wanted = Math.max(2, plot.width / 110);
    const step = timeSteps.find((candidate) => seconds / candidate <= wanted) ?? timeSteps.at(-1);
    const shift = data.epoch === undefined ? 0 : data.epoch - 60 * new Date(1000 * data.epoch).getTimezoneOffset(); // whole times of the clock
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (let at = Math.ceil((shown.left * data.tick + shift) / step) * step - shift; at <= shown.right * data.tick; at += step) {
      const x = toX(at / data.tick);
      pen.fillStyle = color("grid");
      pen.fillRect(x, plot.y, 1, plot.height);
      pen.fillStyle = color("muted");
      pen.fillText(timeLabel(data, at, step), Math.min(x, plot.x + plot.width - 18), plot.y + plot.height + 6);
    }
    if (data.epoch === undefined) pen.fillText("Time since the first submission", plot.x + plot.width / 2, plot.y + plot.height + 24);
  }

  function drawNow(color, paper) {
    const x = toX(data.now), wide = pen.measureText("now").width + 8; // above the bars, whose names it would hide
    if (x < plot.x || x > plot.x + plot.width) return;
    pen.fillStyle = color;
    pen.fillRect(x - 0.75, plot.y - 2, 1.5, plot.height + 2);
    pen.fillRect(Math.min(x - wide / 2, plot.x + plot.width - wide), plot.y - nowHeight, wide, nowHeight - 2);
    pen.fillStyle = paper;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText("now", Math.min(x - wide / 2, plot.x + plot.width - wide) + 4, plot.y - nowHeight / 2 - 0.5);
  }

  function drawRowAxis(color) {
    const rows = (shown.bottom - shown.top) / view.per, wanted = Math.max(2, plot.height / 34);
    const power = 10 ** Math.floor(Math.log10(rows / wanted));
    const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => rows / s <= wanted) ?? power * 10);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillStyle = color("muted");
    const lanes = view === views.gpus && laneName, room = plot.x - labelEdge;
    let free = plot.y + 6;
    for (let at = lanes ? Math.floor(shown.top) : Math.ceil(shown.top / view.per / step) * step; at * view.per < shown.bottom; at += lanes ? 1 : step) {
      const y = toY((at + 0.5) * view.per);
      if (y < free || y > plot.y + plot.height - 4) continue;
      let label = lanes ? laneName(at, step === 1) : view === views.jobs ? jobs.id[at] ?? "" : at.toLocaleString("en");
      if (!label) continue;
      if (lanes) free = y + 16;
      for (let left = label.length - 1; left && pen.measureText(label).width > room; left--) label = "…" + label.slice(-left);
      pen.fillText(label, plot.x - 8, y);
    }
    pen.save();
    pen.translate(10, plot.y + plot.height / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    if (!laneName || view !== views.gpus) pen.fillText(view.unit, 0, 0); // names say what they are of
    pen.restore();
  }

  function barBox(i) {
    const lane = view.lane[i], height = view.height ? view.height[i] : 1;
    if (lane > shown.bottom || lane + height < shown.top || start[i] > shown.right || start[i] + bars.length[i] < shown.left) return null;
    const x = toX(start[i]), y = toY(lane), bottom = toY(lane + height);
    const gap = bottom - y > 5 ? 1 : bottom - y > 3 ? 0.5 : 0;
    return [x, y, Math.max(0.6, toX(start[i] + bars.length[i]) - x - (gap && 0.5)), Math.max(0.6, bottom - y - gap)];
  }

  // Of bars that are flatter than a pixel, those within what was drawn last on their half of a pixel are left out.
  function drawBars(group, color, ground) {
    const halves = Math.ceil(2 * (plot.y + plot.height)) + 2, from = new Float64Array(halves).fill(Infinity), until = new Float64Array(halves);
    pen.fillStyle = pen.strokeStyle = color;
    for (let i = 0; i < count; i++) {
      if (colorOf[i] !== group) continue;
      const box = barBox(i);
      if (!box) continue;
      const [x, y, width, height] = box;
      if (bars.predicted?.[i]) { drawPredicted(pen, box, ground); continue; }
      if (height < 1 && y > 0) {
        const half = Math.round(2 * y), right = x + width;
        if (x >= from[half] && right <= until[half]) continue;
        if (x > until[half] || right < from[half]) { from[half] = x; until[half] = right; }
        else { from[half] = Math.min(from[half], x); until[half] = Math.max(until[half], right); }
      }
      pen.fillRect(x, y, width, height);
    }
  }

  function drawCuts(color) {
    pen.fillStyle = color;
    for (let i = 0; i < count; i++) {
      const box = cut[i] ? barBox(i) : null;
      if (box && box[2] >= 7 && box[3] >= 5) drawWedge(pen, box);
    }
  }

  // What goes on beyond the right edge is marked there, where its bar begins in sight.
  function drawBeyond(color) {
    pen.fillStyle = color;
    for (let i = 0; i < count; i++) {
      const box = bars.predicted?.[i] && start[i] < shown.right && start[i] + bars.length[i] > shown.right ? barBox(i) : null;
      if (box && box[3] >= 5) drawArrow(pen, plot.x + plot.width, box);
    }
  }

  function drawPicked(row, color) {
    pen.strokeStyle = color;
    drawParts(pen, Array.from(bars.job.keys()).filter((i) => bars.job[i] === row).map(barBox).filter(Boolean));
  }

  function drawWaits(color) {
    pen.fillStyle = color;
    pen.globalAlpha = 0.55;
    const low = Math.max(0, Math.floor(shown.top)), high = Math.min(jobs.id.length, Math.ceil(shown.bottom));
    for (let row = low; row < high; row++) {
      const until = jobs.stay[row] ?? reach[row] - submit[row];
      const x = toX(submit[row]), y = toY(row + 0.4), height = Math.max(0.4, toY(row + 0.6) - y);
      pen.fillRect(x, y, Math.max(0.4, toX(submit[row] + until) - x), height);
    }
    pen.globalAlpha = 1;
  }

  // A row of a job has its name at its last bar.
  function drawLabels(color, onPaper) {
    const last = new Map(), right = plot.x + plot.width;
    if (view === views.jobs) for (let i = 0; i < count; i++) last.set(bars.job[i], i);
    pen.textBaseline = "middle";
    for (let i = 0; i < count; i++) {
      const box = barBox(i), beside = last.get(bars.job[i]) === i;
      if (!box || (last.size ? !beside || box[3] < 11 : Math.min(box[2], box[3]) < 13 || Math.max(box[2], box[3]) < 30)) continue;
      const x = Math.max(box[0], plot.x);
      pen.fillStyle = bars.predicted?.[i] ? onPaper : color;
      drawName(pen, named(jobs.name, bars.job[i]) || jobs.id[bars.job[i]], [x, box[1], Math.min(box[0] + box[2], right) - x, box[3]], beside && { color: onPaper, right });
    }
  }

  function jobAt(x, y) {
    const time = toTime(x), row = toRow(y), slack = (shown.right - shown.left) / plot.width * 2;
    if (view === views.jobs) return row >= 0 && row < view.rows ? Math.floor(row) : -1;
    let found = -1, nearest = Infinity;
    for (let i = 0; i < count; i++) {
      if (row < bars.lane[i] || row >= bars.lane[i] + bars.height[i]) continue;
      const away = Math.max(start[i] - time, time - start[i] - bars.length[i], 0);
      if (away <= slack && away <= nearest) { nearest = away; found = bars.job[i]; }
    }
    return found;
  }

  function describe(row) {
    const since = (ticks) => formatSeconds(ticks * data.tick);
    const at = (ticks) => `at ${timeLabel(data, ticks * data.tick, 1)}`;
    const name = named(jobs.name, row), user = named(jobs.user, row), pool = named(jobs.pool, row);
    return [
      name && name !== jobs.id[row] ? `${jobs.id[row]}  ${name}` : jobs.id[row],
      [`${jobs.gpus[row]} GPU${jobs.gpus[row] === 1 ? "" : "s"}`, named(jobs.class, row), user && `user ${user}`, pool && `pool ${pool}`].filter(Boolean).join(", "),
      `submitted ${at(submit[row])}`,
      jobs.wait[row] === null ? data.now === undefined ? "never started" : "has not started" : `started ${at(submit[row] + jobs.wait[row])}, after a wait of ${since(jobs.wait[row])}`,
      jobs.stay[row] === null ? named(jobs.status, row) : `${named(jobs.status, row)} ${at(submit[row] + jobs.stay[row])}, ${since(jobs.stay[row])} after submission`,
      jobs.more?.[row],
    ].filter(Boolean).join("\n");
  }

  // The row of the job `step` behind the one in hand, by the first bars in sight; -1 where there is none.
  function neighbour(step) {
    const seen = new Map(), inSight = (i) => start[i] < shown.right && start[i] + bars.length[i] > shown.left;
    for (let i = 0; i < count; i++) if (inSight(i) && !seen.has(bars.job[i])) seen.set(bars.job[i], [start[i], bars.lane[i]]);
    const order = [...seen.keys()].sort((a, b) => seen.get(a)[0] - seen.get(b)[0] || seen.get(a)[1] - seen.get(b)[1]);
    return order[(order.indexOf(hand.picked) + step + order.length) % order.length] ?? -1;
  }

  function toNow() {
    if (data.now === undefined) return;
    pan(data.now - (shown.right - shown.left) / 3 - shown.left, 0);
    redraw();
  }

  ganttControls(root, { shown, plot, hand, toTime, toRow, zoom, pan, settle, redraw, everything, toNow, jobAt, neighbour, describe, open });
  rowsChoice.addEventListener("change", () => { view = views[rowsChoice.value]; everything(); });
  colorChoice.addEventListener("change", () => { recolor(); redraw(); });
  const closed = new AbortController(), listening = { signal: closed.signal };
  addEventListener("resize", redraw, listening);
  addEventListener("theme", redraw, listening);
  addEventListener("span", ({ detail }) => {
    [shown.left, shown.right] = detail ? detail.map((seconds) => seconds / data.tick) : [0, data.span];
    settle();
  }, listening);
  take(data);
  recolor();
  everything();
  return {
    update(given) { take(given); recolor(); redraw(); },
    show(window) { Object.assign(shown, window); settle(); },
    close() { closed.abort(); },
  };
}

const ganttRoot = document.getElementById("gantt");
if (ganttRoot) ganttChart(ganttRoot, JSON.parse(document.getElementById("gantt-data").textContent));
