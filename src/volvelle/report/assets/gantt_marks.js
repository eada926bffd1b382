"use strict";
// What the Gantt chart is drawn of: boxes are [x, y, width, height] in pixels of the canvas.

const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 604800, 1209600, 2419200, 7862400, 31449600];

// A moment on an axis with ticks so many seconds apart.
function timeLabel(data, seconds, step) {
  if (data.epoch !== undefined) {
    const date = new Date((data.epoch + seconds) * 1000), day = data.span * data.tick >= 86400;
    const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(step < 60 && { second: "2-digit" }) };
    return date.toLocaleString(undefined, day ? { weekday: "short", ...clock } : clock);
  }
  const days = Math.floor(seconds / 86400 + 1e-9), rest = Math.round(seconds - days * 86400);
  if (step >= 86400) return `${days} d`;
  const two = (value) => String(value).padStart(2, "0");
  const clock = `${two(Math.floor(rest / 3600))}:${two(Math.floor(rest / 60) % 60)}` + (step < 60 ? `:${two(rest % 60)}` : "");
  return data.span * data.tick >= 86400 ? `${days} d ${clock}` : clock;
}

// Pale, in the colour that is set, on the colour of the ground: what a job has at once does not add up.
function drawPredicted(pen, [x, y, width, height], ground) {
  const color = pen.fillStyle;
  pen.fillStyle = ground;
  pen.fillRect(x, y, width, height);
  pen.fillStyle = color;
  pen.globalAlpha = 0.3;
  pen.fillRect(x, y, width, height);
  pen.globalAlpha = 1;
  if (width > 3 && height > 3) pen.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

// The name of a bar: along it; else beside it, where that is given: {color, right}; upwards in a tall one; or what fits of it.
function drawName(pen, name, [x, y, width, height], beside) {
  const long = pen.measureText(name).width, middle = y + height / 2 + 0.5;
  pen.textAlign = "left";
  if (long < width - 8) return pen.fillText(name, x + 4, middle);
  if (beside) {
    const after = x + width + 4 + long < beside.right;
    pen.fillStyle = beside.color;
    pen.textAlign = after ? "left" : "right";
    return pen.fillText(name, after ? x + width + 4 : x - 4, middle);
  }
  if (long < height - 8) {
    pen.save();
    pen.translate(x + width / 2, y + height / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(name, 0, 0.5);
    return pen.restore();
  }
  let some = name;
  while (some && pen.measureText(`${some}…`).width > width - 5) some = some.slice(0, -1);
  return some.length > 1 && height >= 13 ? pen.fillText(`${some}…`, x + 3, middle) : undefined;
}

// Where a job was stopped, or is expected to be, before its end.
function drawWedge(pen, [x, y, width, height]) {
  const size = Math.min(6, height / 2), right = x + width, middle = y + height / 2;
  pen.beginPath();
  pen.moveTo(right, middle - size);
  pen.lineTo(right, middle + size);
  pen.lineTo(right - size, middle);
  pen.fill();
}

// At `right`, where what is in the box goes on.
function drawArrow(pen, right, [, y, , height]) {
  const size = Math.min(5, height / 2 - 1), middle = y + height / 2;
  pen.beginPath();
  pen.moveTo(right - size - 2, middle - size);
  pen.lineTo(right - 2, middle);
  pen.lineTo(right - size - 2, middle + size);
  pen.fill();
}

// All parts of one job, tied in their order.
function drawParts(pen, boxes) {
  let before = null;
  pen.lineWidth = 1.75;
  for (const [x, y, width, height] of boxes) {
    pen.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 1), Math.max(1, height - 1));
    if (before && x > before[0] + 2) {
      pen.setLineDash([2, 3]);
      pen.beginPath();
      pen.moveTo(...before);
      pen.lineTo(x, y + height / 2);
      pen.stroke();
      pen.setLineDash([]);
    }
    before = [x + width, y + height / 2];
  }
  pen.lineWidth = 1;
}
