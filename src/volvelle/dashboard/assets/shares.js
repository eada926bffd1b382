// Fair share: what users and pools hold, wait for, and used.

import { get } from "./api.js";
import { h, number, svg, top } from "./dom.js";
import { sayError } from "./dialogs.js";
import { queueLink } from "./queue.js";
import { Table } from "./table.js";

const hours = (seconds) => (seconds === null ? null : seconds / 3600);

// What a user holds, of all GPUs there are.
const shareBar = ({ held_gpus: held, all }) => svg("svg", { viewBox: "0 0 200 14", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" },
  svg("rect", { width: 200, height: 14, class: "track" }), svg("rect", { width: all ? 200 * held / all : 0, height: 14, class: "held" }));

export function shares(root, { cluster, go }) {
  const users = new Table({
    name: "users", label: "Users", empty: () => "Nobody has a job here.", key: (row) => row.user, sort: "-held", open: (row) => go(queueLink({ user: row.user })),
    columns: [
      { name: "user", title: "User", value: (row) => row.user, link: (row) => queueLink({ user: row.user }) },
      { name: "held", title: "GPUs held", value: (row) => row.held_gpus, text: (row) => number(row.held_gpus), number: true },
      { name: "bar", line: true, plain: true, title: "Of all GPUs", text: (row) => `${row.held_gpus} ${row.all}`, draw: shareBar },
      { name: "share", title: "Of all held", value: (row) => row.share, text: (row) => `${(100 * row.share).toFixed(1)} %`, number: true },
      { name: "running", title: "Jobs running", value: (row) => row.running_jobs, number: true },
      { name: "wanted", title: "GPUs waited for", value: (row) => row.waiting_gpus, text: (row) => number(row.waiting_gpus), number: true },
      { name: "waiting", title: "Jobs waiting", value: (row) => row.waiting_jobs, number: true },
      { name: "used", title: "GPU-h in a day", value: (row) => hours(row.gpu_seconds), text: (row) => (row.gpu_seconds === null ? "" : number(Math.round(hours(row.gpu_seconds) * 10) / 10)), number: true },
    ],
  });
  const pools = new Table({
    name: "pools", label: "Pools", key: (row) => row.pool,
    columns: [
      { name: "pool", title: "Pool", value: (row) => row.pool },
      { name: "quota", title: "Quota", value: (row) => row.quota, number: true },
      { name: "held", title: "GPUs held", value: (row) => row.held_gpus, number: true },
      { name: "used", title: "Of its quota", value: (row) => row.held_gpus / row.quota, text: (row) => (row.quota ? `${Math.round(100 * row.held_gpus / row.quota)} %` : ""), number: true },
      { name: "wanted", title: "GPUs waited for", value: (row) => row.waiting_gpus, number: true },
      { name: "lends", title: "Lends", value: (row) => (row.lends ? "yes" : "no") },
    ],
  });
  const poolPart = h("section", { hidden: true }, h("h2", {}, "Pools"), pools.element);
  root.append(top("Shares", users.tools), users.element, poolPart,
    h("p", { class: "note" }, "GPU-hours of others are for operators. Held jobs do not count as waiting."));
  let read = 0, closed = false;
  const draw = async () => {
    read = performance.now();
    try {
      const found = await get("/v1/shares");
      if (closed) return;
      const all = [...cluster.nodes.values()].reduce((sum, node) => sum + node.gpus, 0);
      const held = found.users.reduce((sum, row) => sum + row.held_gpus, 0);
      users.show(found.users.map((row) => ({ ...row, all, share: held ? row.held_gpus / held : 0 })));
      pools.show([...found.pools]);
      poolPart.hidden = !found.pools.length;
    } catch (error) {
      sayError(error);
    }
  };
  draw();
  return { update: () => { if (performance.now() - read > 10000) draw(); }, close: () => { closed = true; } };
}
