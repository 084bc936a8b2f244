// Server-sent events over fetch: unlike EventSource it shows status codes, and we decide when to try again.

import { ask } from "./http.js";

const QUIET = 45_000; // the server sends a comment every 15 s, so this long a silence is a dead connection
const HIDDEN = 60_000; // a hidden page gives its connection back: a browser has only six for one server
const DELAYS = [300, 1000, 2000, 4000, 8000, 15_000];

/** Wait before attempt number `attempt` (from 0), shorter when the network comes back or the page is looked at. */
export function pause(attempt, signal) {
  const delay = DELAYS[Math.min(attempt, DELAYS.length - 1)] * (0.8 + 0.4 * Math.random());
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      removeEventListener("halo-retry", done);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, delay);
    addEventListener("online", done);
    addEventListener("halo-retry", done);
    signal?.addEventListener("abort", done);
  });
}

function parse(block) {
  const event = { name: "message", data: "", id: null };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const field = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event.name = value;
    else if (field === "id") event.id = value;
    else if (field === "data") event.data += (event.data && "\n") + value;
  }
  if (!event.data) return null;
  return { ...event, data: JSON.parse(event.data) };
}

/** Yield the events of a response, as many at once as came in one piece; throws when it is silent for too long. */
export async function* read(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let timer;
  try {
    for (;;) {
      const silence = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error("silent")), QUIET);
      });
      const { done, value } = await Promise.race([reader.read(), silence]);
      clearTimeout(timer);
      if (done) return;
      const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
      rest = blocks.pop();
      const events = blocks.map(parse).filter(Boolean);
      if (events.length) yield events;
    }
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {});
  }
}

/** Resolves when the page is shown; at once when it is. */
function shown(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.visibilityState === "hidden" && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

function abortWhenHidden(controller) {
  let timer;
  const look = () => {
    clearTimeout(timer);
    if (document.visibilityState === "hidden") timer = setTimeout(() => controller.abort(), HIDDEN);
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
}

/**
 * Follow an event stream for ever and return a function that ends it.
 *
 * `on.events(list)` gets what came, `on.state("live" | "lost" | "stopped")` how the connection is, `on.reset()` says that
 * all must be forgotten because the journal is another one or a part of it was erased, `on.refused(error)` that trying again
 * is useless.
 */
export function follow(path, query, on) {
  const ended = new AbortController();
  let cursor = null;
  let attempt = 0;
  let state = "lost";

  /** Follow until the connection ends; true when all must be read anew. */
  async function once() {
    const controller = new AbortController();
    const abort = () => controller.abort();
    ended.signal.addEventListener("abort", abort);
    const release = abortWhenHidden(controller);
    try {
      const response = await ask(path, { query: { ...query, after: cursor ?? query.after }, signal: controller.signal });
      attempt = 0;
      on.state("live");
      for await (const events of read(response)) {
        if (ended.signal.aborted) return;
        for (const event of events) {
          if (event.id) cursor = event.id;
          if (event.name === "shutdown") state = "stopped";
          if (event.data?.type === (event.name === "error" ? "CursorGone" : "erased")) return true;
        }
        on.events(events);
      }
      return false;
    } finally {
      release();
      ended.signal.removeEventListener("abort", abort);
    }
  }

  function restart() {
    cursor = null;
    on.reset();
  }

  async function run() {
    while (!ended.signal.aborted) {
      await shown(ended.signal);
      if (ended.signal.aborted) return;
      try {
        state = state === "stopped" ? state : "lost";
        if (await once()) {
          restart();
          continue;
        }
      } catch (error) {
        if (ended.signal.aborted) return;
        if (error.status === 410) restart();
        else if ([400, 401, 403, 404, 409].includes(error.status)) return on.refused(error);
      }
      if (ended.signal.aborted) return;
      if (document.visibilityState !== "hidden") on.state(state);
      await pause(attempt++, ended.signal);
    }
  }

  run();
  return () => ended.abort();
}
