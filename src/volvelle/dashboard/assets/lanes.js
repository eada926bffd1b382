// Which lanes (GPUs) jobs are drawn on that are expected to start. A lane has one holder at a time.

// By how much a start may be before the end of the holder before it: both are medians, each calibrated by itself, and
// forecasts are sent anew where they moved by some seconds.
const SAME_SECONDS = 5, SAME_SHARE = 0.25;

// Neighbouring lanes as [first, number].
export function runs(lanes) {
  const found = [];
  for (const lane of lanes) {
    const run = found.at(-1);
    if (run && run[0] + run[1] === lane) run[1] += 1; else found.push([lane, 1]);
  }
  return found;
}

// Jobs on lanes from `time` on: first those that hold GPUs, then, after `free`, those that start, by their starts.
export class LanePlan {
  constructor(lanes, time) {
    this.time = time;
    this.parts = []; // {row, from, lanes, ends: [until, cut] by lane}
    this.holder = new Array(lanes); // of each lane the latest part
    this.freeFrom = new Float64Array(lanes).fill(time);
  }

  // Of two jobs that have a GPU at once, one is about to give it up.
  hold(row, until, lanes) { if (until > this.time) this.put(row, this.time, until, lanes); }

  put(row, from, until, lanes) {
    const part = { row, from, lanes: lanes.sort((a, b) => a - b), ends: new Map() };
    for (const lane of lanes) {
      part.ends.set(lane, [until, 0]);
      this.holder[lane] = part;
      this.freeFrom[lane] = until;
    }
    this.parts.push(part);
  }

  free() { this.heap = new LaneHeap(this.freeFrom); }

  // A job takes the lanes that come free first. Where these are held for longer, their holders are expected to be stopped; a
  // lane on which another starts at this moment is not taken, so that of more starts than there are GPUs some are not drawn.
  start(row, from, until, gpus) {
    const taken = [], passed = [];
    while (taken.length < gpus && this.heap.size) {
      const lane = this.heap.pop(), before = this.holder[lane];
      if (this.freeFrom[lane] <= from) taken.push(lane);
      else if (before.from < from) { this.stop(before, lane, from); taken.push(lane); }
      else passed.push(lane);
    }
    this.put(row, from, until, taken);
    for (const lane of [...taken, ...passed]) this.heap.push(lane, this.freeFrom[lane]);
  }

  stop(part, lane, at) {
    const [until] = part.ends.get(lane), same = Math.max(SAME_SECONDS, SAME_SHARE * (at - this.time));
    part.ends.set(lane, [at, until - at > same ? 1 : 0]);
  }

  // Neighbouring lanes of a job that end alike are one bar: {row, from, until, lane, height, cut}.
  * bars() {
    for (const { row, from, lanes, ends } of this.parts) {
      for (const [first, number] of runs(lanes)) {
        let bar = null;
        for (let lane = first; lane < first + number; lane++) {
          const [until, cut] = ends.get(lane);
          if (bar && bar.until === until && bar.cut === cut) { bar.height += 1; continue; }
          if (bar && bar.until > from) yield bar;
          bar = { row, from, until, lane, height: 1, cut };
        }
        if (bar.until > from) yield bar;
      }
    }
  }
}

// Lanes by when they come free, the lower first among equals.
class LaneHeap {
  constructor(freeFrom) {
    this.until = freeFrom;
    this.lanes = Int32Array.from(freeFrom.keys()).sort((a, b) => freeFrom[a] - freeFrom[b] || a - b); // sorted: a heap
    this.size = this.lanes.length;
  }

  before(a, b) { return this.until[a] < this.until[b] || (this.until[a] === this.until[b] && a < b); }

  pop() {
    const { lanes } = this, top = lanes[0], moved = lanes[--this.size];
    let at = 0;
    for (let child = 1; child < this.size; child = 2 * at + 1) {
      if (child + 1 < this.size && this.before(lanes[child + 1], lanes[child])) child += 1;
      if (!this.before(lanes[child], moved)) break;
      lanes[at] = lanes[child];
      at = child;
    }
    lanes[at] = moved;
    return top;
  }

  push(lane, until) {
    const { lanes } = this;
    this.until[lane] = until;
    let at = this.size++;
    for (let parent = (at - 1) >> 1; at > 0 && this.before(lane, lanes[parent]); parent = (at - 1) >> 1) {
      lanes[at] = lanes[parent];
      at = parent;
    }
    lanes[at] = lane;
  }
}
