// Where the page is and what it can do there: sign-in, workspace, sessions, the open session, messages on their way.

import { batch, computed, effect, signal } from "@preact/signals";
import { apply, asked, clear, onward, rowOf, taken } from "./conversation.js";
import { follow, pause, read } from "./events.js";
import { ask, get, post, randomKey } from "./http.js";
import { t } from "./words.js";

/** "starting", "unreachable", "out" (not signed in) or "in". */
export const phase = signal("starting");
/** Whether a password signs in here. */
export const passwords = signal(false);
export const workspaces = signal([]);
export const workspace = signal(null);
export const agents = signal([]);
export const sessions = signal([]);
export const older = signal(null);
/** The open session's id, null for a new chat. */
export const session = signal(null);
/** A sentence about the address that could not be followed. */
export const complaint = signal("");
/** What GET /api/page/models said, null before. */
export const models = signal(null);
/** "live", "lost" or "stopped". */
export const connection = signal("live");
/** Messages that are not in the journal yet: `{key, text, workspace, session, state, error, at, row}`. */
export const outgoing = signal([]);
export const stopping = signal(false);
/** What a screen reader is told. */
export const spoken = signal("");

export const here = computed(() => workspaces.value.find((one) => one.id === workspace.value) || null);
export const title = computed(() => sessions.value.find((one) => one.id === session.value)?.title || "");
const isTaken = ({ key, row }) => taken.value.has(key) || taken.value.has(rowOf(row));
export const pending = computed(() =>
  outgoing.value.filter((one) => one.workspace === workspace.value && one.session === session.value && !isTaken(one)),
);

const STORE = "halo-outgoing";
const DAY = 86_400_000;
let unfollow = () => {};

// Messages on their way

function remember() {
  sessionStorage.setItem(STORE, JSON.stringify(outgoing.value));
}

function change(key, data) {
  outgoing.value = outgoing.value.map((one) => (one.key === key ? { ...one, ...data } : one));
  remember();
}

export function discard(key) {
  outgoing.value = outgoing.value.filter((one) => one.key !== key);
  remember();
}

export function send(text) {
  const message = { key: randomKey(), text, workspace: workspace.value, session: session.value, state: "sending", at: Date.now() };
  outgoing.value = [...outgoing.value, message];
  remember();
  deliver(message.key);
}

export function resend(key) {
  change(key, { state: "sending", error: "" });
  deliver(key);
}

/** A refusal in words: what is wrong, and what to do. */
function said({ message, advice }) {
  const sentences = [message, advice].filter(Boolean).map((text) => text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, ""));
  return `${sentences.join(". ")}.`;
}

/** Send until the server has said that it is durable; every try has the same key, so it is one message however often. */
async function deliver(key) {
  for (let attempt = 0; ; attempt++) {
    const message = outgoing.value.find((one) => one.key === key);
    if (!message) return;
    try {
      return accepted(message, await submit(message));
    } catch (error) {
      if (error.status === 401) return signedOut();
      if (error.status >= 400 && error.status !== 503 && error.status < 600) {
        return change(key, { state: "failed", error: said(error) });
      }
      change(key, { state: "unsent" });
    }
    await pause(attempt);
  }
}

/** Post a message and return its session and row; the answer itself comes through the subscription. */
async function submit({ key, text, workspace, session }) {
  const response = await ask("api/page/chat", { body: { key, message: text, workspace, session } });
  for await (const events of read(response)) {
    const first = events.find((event) => event.data.type === "session");
    if (first) return first.data;
    throw new Error("no session frame");
  }
  throw new Error("cut");
}

function accepted({ key, session: from, workspace: place }, { sessionId: id, row }) {
  batch(() => {
    outgoing.value = outgoing.value.map((one) => (one.key === key ? { ...one, session: id, row, state: "accepted" } : one));
    if (from === null && session.value === null && place === workspace.value) openSession(id);
  });
  remember();
  refreshSessions();
}

// What is taken into the journal is no longer on its way. A command of this page may have named where it goes on.
effect(() => {
  const gone = outgoing.value.filter(isTaken);
  if (!gone.length) return;
  const next = gone.map((one) => onward.get(one.row)).findLast(Boolean);
  outgoing.value = outgoing.value.filter((one) => !gone.includes(one));
  remember();
  if (next) queueMicrotask(() => openSession(next));
  if (gone.some((one) => taken.value.has(rowOf(one.row)))) refreshSoon();
});

function recall() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORE) || "[]");
    outgoing.value = kept.filter((one) => Date.now() - one.at < DAY);
  } catch {
    outgoing.value = [];
  }
  for (const one of outgoing.value) if (["sending", "unsent"].includes(one.state)) deliver(one.key);
}

export async function stop() {
  stopping.value = true;
  try {
    await post("api/page/stop", { workspace: workspace.value, session: session.value });
  } catch (error) {
    if (error.status === 401) signedOut();
  } finally {
    stopping.value = false;
  }
}

/** Answer a question; returns null, or what was `said` against it and whether the question is `over`. */
export async function answer(question, approved, text) {
  try {
    await post("api/page/answer", { workspace: workspace.value, question, approved, text });
    return null;
  } catch (error) {
    if (error.status === 401) signedOut();
    return { said: error.status ? said(error) : t("unreachable"), over: error.status === 409 };
  }
}

effect(() => {
  if (asked.value) spoken.value = `${t("asks")}: ${asked.value.text}`;
});

// The open session

function remark(frames) {
  const titled = frames.findLast((frame) => frame.type === "title");
  if (titled) {
    sessions.value = sessions.value.map((one) => (one.id === session.value ? { ...one, title: titled.title } : one));
    refreshSoon();
  }
  if (frames.some((frame) => frame.type === "complete" || frame.type === "error")) {
    if (frames.at(-1).turn) spoken.value = t("finished");
    refreshSoon();
  }
  const told = frames.findLast((frame) => frame.type === "command");
  if (told) spoken.value = told.answer;
  if (frames.some((frame) => frame.type === "question" || frame.type === "settled")) refreshSoon();
}

function listen(id) {
  unfollow();
  unfollow = follow("api/page/subscribe", { workspace: workspace.value, session: id }, {
    events(list) {
      const frames = list.filter((event) => event.name === "message").map((event) => event.data);
      apply(frames);
      remark(frames);
    },
    state(now) {
      connection.value = now;
    },
    reset() {
      clear();
      refreshSoon();
    },
    refused(error) {
      if (error.status === 401) return signedOut();
      batch(() => {
        complaint.value = error.status === 404 ? t("noSession") : error.message;
        openSession(null, { replace: true });
      });
    },
  });
}

/** Open a session, null for a new chat, and say so in the address. */
export function openSession(id, { replace = false, quiet = false } = {}) {
  batch(() => {
    unfollow();
    unfollow = () => {};
    clear();
    connection.value = "live";
    session.value = id;
    if (id !== null) complaint.value = "";
  });
  if (!quiet) show(replace);
  if (id !== null) listen(id);
}

function show(replace) {
  const url = new URL(location.href);
  url.searchParams.set("workspace", workspace.value);
  if (session.value) url.searchParams.set("session", session.value);
  else url.searchParams.delete("session");
  if (url.href !== location.href) history[replace ? "replaceState" : "pushState"](null, "", url);
}

// Lists

async function softly(work) {
  try {
    return await work();
  } catch (error) {
    if (error.status === 401) signedOut();
    return null;
  }
}

export async function refreshSessions() {
  const place = workspace.value;
  const found = await softly(() => get("api/page/sessions", { workspace: place }));
  if (!found || place !== workspace.value) return;
  batch(() => {
    const fresh = new Set(found.sessions.map((one) => one.id));
    const oldest = found.sessions.at(-1)?.updated_at ?? 0;
    const rest = found.cursor === null ? [] : sessions.value.filter((one) => !fresh.has(one.id) && one.updated_at < oldest);
    sessions.value = [...found.sessions, ...rest];
    if (!rest.length) older.value = found.cursor;
  });
}

export async function moreSessions() {
  const found = await softly(() => get("api/page/sessions", { workspace: workspace.value, cursor: older.value }));
  if (!found) return;
  batch(() => {
    const known = new Set(sessions.value.map((one) => one.id));
    sessions.value = [...sessions.value, ...found.sessions.filter((one) => !known.has(one.id))];
    older.value = found.cursor;
  });
}

let looked = 0;

/** Ask who answers; a model that answers is not asked about again within a minute unless `now`. */
export async function refreshModels({ now = false } = {}) {
  const found = models.value?.models.find((one) => one.model === models.value.chosen);
  if (!now && found?.is_model && Date.now() - looked < 60_000) return;
  looked = Date.now();
  models.value = (await softly(() => get("api/page/models"))) || models.value;
}

let soon;
function refreshSoon() {
  clearTimeout(soon);
  soon = setTimeout(() => {
    refreshSessions();
    refreshModels();
  }, 200);
}

// Start

function signedOut() {
  unfollow();
  phase.value = "out";
}

/** Tell whether we may go on: 401 means no, no such route means that only a link signs in. */
async function signedIn() {
  try {
    await get("api/auth/check");
    return true;
  } catch (error) {
    passwords.value = error.status === 401 && error.body.password !== false;
    if (error.status !== 401 && error.status !== 404) throw error;
    return error.status === 404;
  }
}

export async function signIn(password) {
  await post("api/auth/login", { password });
  await start();
}

async function enter() {
  workspaces.value = (await get("api/page/workspaces")).workspaces;
  const query = new URL(location.href).searchParams;
  const wanted = query.get("workspace");
  const found = workspaces.value.find((one) => one.id === wanted);
  batch(() => {
    if (wanted && !found) complaint.value = t("otherWorkspace");
    phase.value = "in";
  });
  if (workspaces.value.length) openWorkspace((found || workspaces.value[0]).id, found || !wanted ? query.get("session") : null);
  recall();
}

/** Open a folder as a workspace, the server's own one for "". Throws `Refused`. */
export async function openFolder(path) {
  const opened = await post("api/page/workspaces", { path });
  workspaces.value = (await get("api/page/workspaces")).workspaces;
  openWorkspace(opened.id);
}

/** Open a workspace and in it a session, null for a new chat. */
export function openWorkspace(id, sessionId = null, { quiet = false } = {}) {
  batch(() => {
    workspace.value = id;
    sessions.value = [];
    older.value = null;
    agents.value = [];
  });
  openSession(sessionId, { replace: true, quiet });
  refreshSessions();
  refreshModels();
  softly(async () => {
    agents.value = (await get("api/page/agents", { workspace: id })).agents;
  });
}

/** Find out who we are and where; goes on trying while the server cannot be reached. */
export async function start() {
  for (let attempt = 0; ; attempt++) {
    try {
      if (!(await signedIn())) return signedOut();
      return await enter();
    } catch (error) {
      if (error.status === 401) return signedOut();
      phase.value = "unreachable";
    }
    await pause(attempt);
  }
}

addEventListener("popstate", () => {
  if (phase.value !== "in") return;
  const query = new URL(location.href).searchParams;
  const place = query.get("workspace") || workspace.value;
  if (place !== workspace.value) openWorkspace(place, query.get("session"), { quiet: true });
  else if (query.get("session") !== session.value) openSession(query.get("session"), { quiet: true });
});

addEventListener("focus", () => {
  if (phase.value === "in" && workspace.value) refreshSoon();
});
