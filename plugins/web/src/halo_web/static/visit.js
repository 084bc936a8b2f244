// What a visitor's chat is about and can do: the same names as state.js, with the token of an account in place of a sign-in.

import { batch, computed, effect, signal } from "@preact/signals";
import { apply, asked, clear, rowOf, taken } from "./conversation.js";
import { follow, pause, read } from "./events.js";
import { ask, post, present, randomKey } from "./http.js";
import { t } from "./words.js";

/** "starting", "refused" (no token that is accepted) or "in". */
export const phase = signal("starting");
export const title = signal("");
/** Which of a page's chats this is; the drafts of each are its own. */
export const workspace = signal("");
export const session = signal(null);
export const connection = signal("live");
export const outgoing = signal([]);
export const stopping = signal(false);
export const spoken = signal("");
/** A visitor is not told which models there are. */
export const models = signal(null);
export const refreshModels = () => {};

const isTaken = ({ key, row }) => taken.value.has(key) || taken.value.has(rowOf(row));
const isHere = (one) => one.session === null || one.session === session.value;
export const pending = computed(() => outgoing.value.filter((one) => isHere(one) && !isTaken(one)));

let agent = "";
let embedder = "*";
let unfollow = () => {};

// The embedding page keeps what a reload needs: browsers refuse storage to frames of other sites. The session is kept for all of
// its tabs, messages on their way for this one.

function keep(what, value) {
  parent.postMessage({ type: "halo-keep", what, value }, embedder);
}

function remember() {
  keep("outgoing", outgoing.value.length ? JSON.stringify(outgoing.value) : null);
}

// Messages

function change(key, data) {
  outgoing.value = outgoing.value.map((one) => (one.key === key ? { ...one, ...data } : one));
  remember();
}

export function discard(key) {
  outgoing.value = outgoing.value.filter((one) => one.key !== key);
  remember();
}

export function send(text) {
  const message = { key: randomKey(), text, session: session.value, state: "sending", at: Date.now() };
  outgoing.value = [...outgoing.value, message];
  remember();
  deliver(message.key);
}

export function resend(key) {
  change(key, { state: "sending", error: "" });
  deliver(key);
}

function said({ message, advice }) {
  return [message, advice].filter(Boolean).join(". ");
}

/** Send until the server has said that it is durable; every try has the same key, so it is one message however often. */
async function deliver(key) {
  for (let attempt = 0; ; attempt++) {
    const message = outgoing.value.find((one) => one.key === key);
    if (!message) return;
    try {
      const { row } = await submit(message);
      return change(key, { row, state: "accepted" });
    } catch (error) {
      if (error.status === 401) return refuse();
      if (error.status >= 400 && error.status < 600 && ![429, 503].includes(error.status)) {
        return change(key, { state: "failed", error: said(error) });
      }
      change(key, { state: "unsent" });
    }
    await pause(attempt);
  }
}

let minting = null;

/** The open session, a new one for the first message; one for all messages that wait for it. */
async function opened() {
  if (session.value !== null) return session.value;
  minting ??= post("api/web/sessions", agent ? { agentId: agent } : {}).finally(() => (minting = null));
  const { sessionId } = await minting;
  if (session.value === null) openSession(sessionId);
  return session.value;
}

/** Post a message and return its row; the answer itself comes through the subscription. */
async function submit({ key, text, session: named }) {
  const id = named ?? (await opened());
  change(key, { session: id });
  const response = await ask("api/web/chat", { body: { message: text, sessionId: id, clientMsgId: key } });
  for await (const events of read(response)) {
    const first = events.find((event) => event.data.type === "session");
    if (first) return first.data;
    throw new Error("no session frame");
  }
  throw new Error("cut");
}

effect(() => {
  const gone = outgoing.value.filter(isTaken);
  if (!gone.length) return;
  outgoing.value = outgoing.value.filter((one) => !gone.includes(one));
  remember();
});

export async function stop() {
  stopping.value = true;
  try {
    await post("api/web/stop", { sessionId: session.value });
  } catch (error) {
    if (error.status === 401) refuse();
  } finally {
    stopping.value = false;
  }
}

/** Answer a question; returns null, or what was `said` against it and whether the question is `over`. */
export async function answer(question, approved, text) {
  try {
    await post("api/web/answer", { question, approved, text });
    return null;
  } catch (error) {
    if (error.status === 401) refuse();
    return { said: error.status ? said(error) : t("unreachable"), over: error.status === 409 };
  }
}

/** Save a file that an answer named; returns whether it could be read. */
export async function download(path) {
  try {
    const response = await ask("api/web/file", { query: { path } });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = path.split(/[\\/]/).at(-1);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    return true;
  } catch (error) {
    if (error.status === 401) refuse();
    return false;
  }
}

// The open session

function remark(frames) {
  if (frames.some((frame) => (frame.type === "complete" || frame.type === "error") && frame.turn)) spoken.value = t("finished");
  const next = frames.findLast((frame) => frame.type === "switch");
  if (next) queueMicrotask(() => openSession(next.sessionId));
}

effect(() => {
  if (asked.value) spoken.value = `${t("asks")}: ${asked.value.text}`;
});

/** Open a session, null for a new chat; other tabs of the page go with it. */
export function openSession(id) {
  if (id === session.value) return;
  batch(() => {
    unfollow();
    unfollow = () => {};
    clear();
    connection.value = "live";
    session.value = id;
  });
  keep("session", id);
  if (id !== null) listen(id);
}

function listen(id) {
  unfollow = follow("api/web/subscribe", { sessionId: id, after: "0" }, {
    events(list) {
      const frames = list.filter((event) => event.name === "message").map((event) => event.data);
      apply(frames);
      remark(frames);
    },
    state(now) {
      connection.value = now;
    },
    reset: clear,
    refused(error) {
      if (error.status === 401) return refuse();
      openSession(null); // it was deleted, or is another account's
    },
  });
}

function refuse() {
  unfollow();
  phase.value = "refused";
}

// Start

/** Begin with what the embedding page, of the origin `from`, says. */
export function start(config, from) {
  if (!config.token) return refuse();
  present(config.token);
  agent = config.agent || "";
  embedder = from;
  batch(() => {
    title.value = config.title || "";
    workspace.value = config.place || "";
    phase.value = "in";
    try {
      outgoing.value = JSON.parse(config.outgoing || "[]");
    } catch {
      outgoing.value = [];
    }
    openSession(config.session || null);
  });
  for (const one of outgoing.value) if (["sending", "unsent"].includes(one.state)) deliver(one.key);
}

/** Go where another tab of the embedding page has gone. */
export function come(id) {
  if (phase.value === "in") openSession(id);
}
