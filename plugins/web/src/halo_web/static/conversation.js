// What the conversation shows: items built from frames. Seeing a frame twice changes nothing.

import { batch, signal } from "@preact/signals";

/** Items in order; each is `{id, kind, data}` with `data` a signal, so that a piece of text redraws one item only. */
export const items = signal([]);
/** The id of the running turn, "" when the session rests; the frames tell it, from the first one on. */
export const running = signal("");
/** The open question, as its item's data; null when none waits for an answer. */
export const asked = signal(null);
/** The id, in the document, of question number `question`. */
export const placeOf = (question) => `question-${question}`;
/** Keys of messages that are in the journal; of commands, which have none there, `rowOf` their row. */
export const taken = signal(new Set());
export const rowOf = (row) => `row:${row}`;
/** The session in which the conversation goes on, by the row of the command that said so. */
export const onward = new Map();

const index = new Map();
/** A call's item by the call's id; some providers use an id again, then its last item counts. */
const calls = new Map();

export function clear() {
  batch(() => {
    index.clear();
    calls.clear();
    onward.clear();
    items.value = [];
    running.value = "";
    asked.value = null;
    taken.value = new Set();
  });
}

/** Add or change an item; one that has a `call`, the id of another item, goes behind that and what else has it. */
function put(id, kind, data, call = null) {
  const found = index.get(id);
  if (found) {
    found.data.value = { ...found.data.value, ...data };
    return;
  }
  const item = { id, kind, call, data: signal(data) };
  index.set(id, item);
  const before = items.value.findLastIndex((one) => call === null || one.id === call || one.call === call) + 1;
  items.value = [...items.value.slice(0, before), item, ...items.value.slice(before)];
}

function forget(which) {
  const gone = items.value.filter(which);
  for (const { id } of gone) index.delete(id);
  if (gone.length) items.value = items.value.filter((item) => !gone.includes(item));
}

/** The reply's item, made when it is new. `count` is in characters as the server counts them: code points. */
function reply(frame) {
  if (!index.has(frame.reply)) put(frame.reply, "answer", { turn: frame.turn, text: "", count: 0, thinking: "", done: false });
  return index.get(frame.reply).data;
}

function append(frame) {
  const data = reply(frame);
  const { text, count } = data.value;
  const points = Array.from(frame.text).slice(Math.max(0, count - frame.offset));
  if (frame.offset > count || !points.length) return;
  data.value = { ...data.value, text: text + points.join(""), count: count + points.length };
}

function end(frame) {
  const known = running.value === frame.turn;
  running.value = "";
  asked.value = null;
  if (!frame.turn || !known) return; // of a turn that was erased only its end is left
  const answers = items.value.filter((item) => item.kind === "answer" && item.data.value.turn === frame.turn);
  for (const { data } of answers) if (!data.value.done) data.value = { ...data.value, done: true };
  const last = answers.findLast((item) => item.data.value.model);
  const text = answers.map((item) => item.data.value.text).filter(Boolean).join("\n\n");
  if (frame.type === "error") {
    // The turn's error says what its last attempt said.
    forget(({ kind, data }) => kind === "discarded" && data.value.turn === frame.turn && frame.error.startsWith(data.value.error));
    put(`error:${frame.turn}`, "error", { error: frame.error, kind: frame.kind });
  }
  put(`end:${frame.turn}`, "end", { outcome: frame.outcome, at: frame.at, model: last?.data.value.model || "", text });
}

const steps = {
  started(frame) {
    running.value = frame.turn;
  },
  user(frame) {
    taken.value = new Set(taken.value).add(frame.key).add(rowOf(frame.row));
    put(rowOf(frame.row), "user", { text: frame.text, at: frame.at });
  },
  command(frame) {
    put(rowOf(frame.row), "user", { text: frame.text, at: frame.at });
    put(`answer:${frame.row}`, "notice", { text: frame.answer });
    if (frame.session) onward.set(frame.row, frame.session);
    taken.value = new Set(taken.value).add(rowOf(frame.row));
  },
  stream: append,
  thinking(frame) {
    const data = reply(frame);
    if (!data.value.done) data.value = { ...data.value, thinking: data.value.thinking + frame.text };
  },
  message(frame) {
    const data = reply(frame);
    data.value = { ...data.value, thinking: frame.thinking, model: frame.model, done: true };
  },
  cut(frame) {
    const data = reply(frame);
    data.value = { ...data.value, cut: true, done: true };
  },
  discarded(frame) {
    const data = reply(frame);
    data.value = { ...data.value, text: "", count: 0, thinking: "" };
    put(`discarded:${frame.reply}:${frame.attempt}`, "discarded", frame);
  },
  tool_call(frame) {
    const id = `${frame.reply}:${frame.toolUseId}`;
    calls.set(frame.toolUseId, id);
    put(id, "tool", { name: frame.toolName, input: frame.toolInput, turn: frame.turn });
  },
  tool_result(frame) {
    const { toolName: name, result, length, outcome, ms } = frame;
    put(calls.get(frame.toolUseId) || frame.toolUseId, "tool", { name, result, length, outcome, ms });
  },
  question(frame) {
    const { question, toolName: name, text, options, expiresAt: until } = frame;
    const call = calls.get(frame.toolUseId) ?? null;
    asked.value = { question, name, input: index.get(call)?.data.value.input, text, options, until };
    put(placeOf(question), "question", asked.value, call);
  },
  settled(frame) {
    const { question, state, by, text: answer } = frame;
    if (asked.value?.question === question) asked.value = null;
    if (index.has(placeOf(question))) put(placeOf(question), "question", { state, by, answer });
  },
  file(frame) {
    put(`file:${frame.reply}:${frame.path}`, "file", { path: frame.path });
  },
  notice(frame) {
    put(`notice:${frame.turn}:${frame.at}:${frame.text}`, "notice", { text: frame.text });
  },
  resumed(frame) {
    put(`resumed:${frame.turn}`, "resumed", {});
  },
  complete: end,
  error: end,
};

/** Take frames as they came. */
export function apply(frames) {
  batch(() => {
    for (const frame of frames) steps[frame.type]?.(frame);
  });
}
