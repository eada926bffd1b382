"use strict";
// How the Gantt chart is pointed at, moved, zoomed and gone through by pointer, buttons and keys.

// chart: what gantt.js shares. `hand` and `shown` are changed here; `jobAt(x, y)` is the row of a job, or -1; `open`: null where jobs are not opened.
function ganttControls(root, chart) {
  const { shown, plot, hand, toTime, toRow, zoom, pan, settle, redraw, everything, toNow, jobAt, neighbour, describe, open } = chart;
  const canvas = root.querySelector("canvas");

  function point(row, place) {
    if (row >= 0) showTip(describe(row), place); else hideTip();
    if (row === hand.pointed) return;
    hand.pointed = row;
    redraw();
  }

  function pick(step) {
    const row = neighbour(step);
    if (row < 0) return;
    hand.picked = row;
    const { left, top } = canvas.getBoundingClientRect();
    showTip(describe(row), { clientX: left + plot.x, clientY: top + plot.y });
    redraw();
  }

  const pointers = new Map();
  const inside = (x, y) => x >= plot.x && x <= plot.x + plot.width && y >= plot.y && y <= plot.y + plot.height;
  const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const spread = () => { const [a, b] = [...pointers.values()]; return [Math.hypot(a[0] - b[0], a[1] - b[1]), (a[0] + b[0]) / 2, (a[1] + b[1]) / 2]; };

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, spot(event));
    hideTip();
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event), last = pointers.get(event.pointerId);
    if (!last) {
      point(inside(x, y) ? jobAt(x, y) : -1, event);
      return;
    }
    const before = pointers.size === 2 ? spread() : null;
    pointers.set(event.pointerId, [x, y]);
    if (before) {
      const [apart, middleX, middleY] = spread(), factor = before[0] / Math.max(1, apart);
      zoom("time", factor, toTime(middleX));
      zoom("rows", factor, toRow(middleY));
      settle();
    } else {
      pan((last[0] - x) / plot.width * (shown.right - shown.left), (last[1] - y) / plot.height * (shown.bottom - shown.top));
      redraw();
    }
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => point(-1));
  canvas.addEventListener("dblclick", everything);
  let downAt = null;
  canvas.addEventListener("pointerdown", (event) => { downAt = [event.clientX, event.clientY]; });
  canvas.addEventListener("click", (event) => {
    if (!downAt || Math.hypot(event.clientX - downAt[0], event.clientY - downAt[1]) > 4) return;
    const row = jobAt(...spot(event));
    if (row >= 0 && open && !event.shiftKey && (event.pointerType !== "touch" || row === hand.picked)) return open(row);
    hand.picked = row === hand.picked ? -1 : row;
    if (event.pointerType === "touch" && hand.picked >= 0) showTip(describe(row), event); // a finger does not hover: the next tap opens
    return redraw();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x, y] = spot(event), turned = event.deltaY || event.deltaX;
    const factor = Math.exp(Math.max(-1, Math.min(1, turned / 300)));
    if (event.shiftKey) zoom("rows", factor, toRow(y)); else zoom("time", factor, toTime(x));
    hideTip();
    settle();
  }, { passive: false });

  const middle = () => [(shown.left + shown.right) / 2, (shown.top + shown.bottom) / 2];
  const actions = {
    in: () => { zoom("time", 0.6, middle()[0]); settle(); },
    out: () => { zoom("time", 1 / 0.6, middle()[0]); settle(); },
    taller: () => { zoom("rows", 0.6, middle()[1]); settle(); },
    flatter: () => { zoom("rows", 1 / 0.6, middle()[1]); settle(); },
    all: everything,
    left: () => { pan(-(shown.right - shown.left) / 5, 0); redraw(); },
    right: () => { pan((shown.right - shown.left) / 5, 0); redraw(); },
    up: () => { pan(0, -(shown.bottom - shown.top) / 5); redraw(); },
    down: () => { pan(0, (shown.bottom - shown.top) / 5); redraw(); },
    next: () => pick(1),
    previous: () => pick(-1),
    open: () => { if (hand.picked >= 0) open?.(hand.picked); },
    drop: () => { hand.picked = -1; hideTip(); redraw(); },
    now: toNow,
  };
  const keys = { "+": "in", "=": "in", "-": "out", "[": "flatter", "]": "taller", "0": "all", ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", j: "next", k: "previous", Enter: "open", Escape: "drop", n: "now" };
  for (const button of root.querySelectorAll("button[data-do]")) button.addEventListener("click", () => actions[button.dataset.do]());
  canvas.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[action]();
  });
}
