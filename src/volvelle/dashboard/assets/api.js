// The API of the server that this page came from, in the session of this browser.

import { remember, remembered } from "./dom.js";

const KEY_HEADER = "Volvelle-Session-Key";

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.hint = problem.hint || "";
  }
}

let onLoggedOut = () => {};
export const whenLoggedOut = (action) => { onLoggedOut = action; };

async function request(method, path, body, signal) {
  const headers = { [KEY_HEADER]: remembered("key", "") };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method, headers, signal, credentials: "same-origin", cache: "no-store" };
  const response = await fetch(path, { ...options, body: body === undefined ? undefined : JSON.stringify(body) });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "/v1/session") onLoggedOut();
  throw new ApiError(response.status, problem);
}

async function json(method, path, body) {
  const response = await request(method, path, body);
  return response.status === 204 ? null : response.json();
}

// Of a run: the moment that is shown.
let moment = null;
export const setMoment = (at) => { moment = at; };

const atMoment = (path) => (moment === null ? path : `${path}${path.includes("?") ? "&" : "?"}at=${moment}`);
export const get = (path) => json("GET", atMoment(path));
// The rows of a table as objects, by the names of its columns.
export const named = (columns, rows) => rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at]])));
export const post = (path, body) => json("POST", path, body);
export const patch = (path, body) => json("PATCH", path, body);
export const put = (path, body) => json("PUT", path, body);

export async function logIn(token) {
  const { session, key } = await post("/v1/session", { token });
  remember("key", key);
  return session;
}

export async function logOut() {
  await json("DELETE", "/v1/session").catch(() => {});
  remember("key", "");
}

// The text of a streaming answer, piece by piece, until it ends or `signal` says so.
export async function* stream(path, signal) {
  const reader = (await request("GET", path, undefined, signal)).body.getReader(), decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Server-sent events. EventSource cannot send the session's key.
export async function* events(path, signal) {
  let rest = "";
  for await (const text of stream(path, signal)) {
    const parts = (rest + text).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const event = { name: "message", data: "" };
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) event.name = line.slice(7);
        if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      if (event.data) yield event;
    }
  }
}
