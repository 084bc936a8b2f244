// The conversation: what was said, what tools did, how turns ended.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ModelName, nameOf } from "./answerer.js";
import { asked, items, running } from "./conversation.js";
import { Icon, Prose, html } from "./dom.js";
import { markdown } from "./markdown.js";
import { Question } from "./question.js";
import { discard, pending, resend, session } from "state";
import { advice, t, timeOf } from "./words.js";

function User({ data }) {
  const { text } = data.value;
  return html`<article class="user" data-testid="message-user" aria-label=${t("you")}><div>${text}</div></article>`;
}

function Answer({ data }) {
  const { text, thinking, done, cut } = data.value;
  if (!text && !thinking) return null;
  return html`
    <article class="answer" data-testid="message-assistant" aria-busy=${!done}>
      ${thinking && html`<details class="thinking"><summary>${t("thinking")}</summary><div>${thinking}</div></details>`}
      <div class="markdown" dangerouslySetInnerHTML=${{ __html: markdown(text) }} />
      ${cut && html`<p class="muted">${t("cut")}</p>`}
    </article>
  `;
}

function brief(input) {
  const values = Object.values(input || {}).filter((value) => ["string", "number", "boolean"].includes(typeof value));
  const text = values.join(" ").replace(/\s+/g, " ");
  return text.length > 90 ? `${text.slice(0, 90)}…` : text;
}

function Tool({ data }) {
  const { name, input, result, length, outcome, ms } = data.value;
  const state = outcome || (asked.value ? "waiting" : running.value ? "running" : "not_run");
  return html`
    <details class=${`tool ${state}`} data-testid="tool-call" data-tool=${name} data-outcome=${state}>
      <summary>
        <${Icon} name="tool" />
        <code class="tool-name">${name}</code>
        <span class="brief">${brief(input)}</span>
        <span class="tool-state">${t(state === "error" ? "failed" : state)}${ms >= 1000 && ` · ${(ms / 1000).toFixed(1)} s`}</span>
      </summary>
      <h4>${t("arguments")}</h4>
      <pre tabindex="0" data-testid="tool-arguments">${JSON.stringify(input || {}, null, 2)}</pre>
      ${result !== undefined &&
      html`<h4>${t("result")}</h4>
        <pre tabindex="0" data-testid="tool-result">${result || t("noResult")}</pre>
        ${length > result.length && html`<p class="muted">${t("clipped", { shown: Array.from(result).length, all: length })}</p>`}`}
    </details>
  `;
}

function Failure({ data }) {
  const { error, kind } = data.value;
  return html`
    <section class="failure" role="alert" data-testid="error" data-kind=${kind}>
      <strong>${t("errorTitle")}</strong>
      <p>${error}</p>
      ${!error.includes(" — ") && html`<p><${Prose} text=${advice(kind)} /></p>`}
    </section>
  `;
}

function Notice({ data }) {
  return html`<p class="notice" data-testid="notice">${data.value.text}</p>`;
}

function Discarded({ data }) {
  return html`<p class="notice" data-testid="discarded">${t("discarded", data.value)}</p>`;
}

function Resumed() {
  return html`<p class="notice" data-testid="resumed">${t("resumed")}</p>`;
}

function End({ data }) {
  const { outcome, at, model, text } = data.value;
  const how = { cancelled: t("cancelled"), interrupted: t("wasInterrupted") }[outcome];
  return html`
    <footer class="end" data-testid="turn-end" data-outcome=${outcome || "failed"}>
      ${text && html`<button type="button" class="copy icon-button" data-copy=${text} aria-label=${t("copy")}><${Icon} name="copy" /></button>`}
      ${model && html`<span data-testid="answer-model" title=${t("answered", { model: nameOf(model) })}>${nameOf(model)}</span>`}
      ${how && html`<span>${how}</span>`}
      ${at && html`<time datetime=${new Date(at).toISOString()}>${timeOf(at)}</time>`}
    </footer>
  `;
}

const KINDS = { user: User, answer: Answer, tool: Tool, question: Question, error: Failure, notice: Notice, discarded: Discarded, resumed: Resumed, end: End };

function Outgoing({ message }) {
  const { key, text, state, error } = message;
  const says = { failed: t("notSent"), unsent: t("unsent"), accepted: t(asked.value ? "behind" : running.value ? "queued" : "sending") };
  return html`
    <article class=${`user outgoing ${state}`} data-testid="message-outgoing" data-state=${state} aria-label=${t("you")}>
      <div>${text}</div>
      <p class="muted">${says[state] || t("sending")}</p>
    </article>
    ${state === "failed" &&
    html`<section class="failure" role="alert" data-testid="refused">
      <p><${Prose} text=${error} /></p>
      <p class="actions">
        <button type="button" onClick=${() => resend(key)}>${t("retry")}</button>
        <button type="button" class="plain" onClick=${() => discard(key)}>${t("discard")}</button>
      </p>
    </section>`}
  `;
}

function Working() {
  return html`
    <p class="working" data-testid="working"><span class="dots" aria-hidden="true"><i /><i /><i /></span> ${t("working")} <${ModelName} /></p>
  `;
}

async function copy(event) {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const text = button.dataset.copy ?? button.closest(".code").querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return;
  }
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
}

/** Keep the end in view while the reader is there, and leave a reader who scrolled up alone. */
function useEnd() {
  const outer = useRef(null);
  const inner = useRef(null);
  const [away, setAway] = useState(false);
  const stick = useRef(true);
  const top = useRef(0);
  const jump = () => {
    stick.current = true;
    outer.current.scrollTop = outer.current.scrollHeight;
    top.current = outer.current.scrollTop;
  };
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => stick.current && jump());
    watch.observe(inner.current);
    watch.observe(outer.current);
    return () => watch.disconnect();
  }, []);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = outer.current;
    // What has grown since the jump makes the end far too: only a reader goes up.
    stick.current = scrollHeight - scrollTop - clientHeight < 60 || (stick.current && scrollTop >= top.current);
    top.current = scrollTop;
    setAway(!stick.current);
  };
  return { outer, inner, away, jump, onScroll };
}

/** The conversation; `welcome` is shown in an empty one, `more` are components for further kinds of items. */
export function Conversation({ welcome, more = {} }) {
  const kinds = { ...KINDS, ...more };
  const { outer, inner, away, jump, onScroll } = useEnd();
  const fresh = session.value === null && !pending.value.length;
  const waits = pending.value.filter((one) => one.state !== "failed").length > 0;
  const works = running.value && !asked.value;
  useLayoutEffect(jump, [session.value, pending.value.length]);
  return html`
    <div class="conversation" ref=${outer} onScroll=${onScroll} onClick=${copy}>
      <div class="column" ref=${inner} role="log" aria-live="off" aria-label=${t("conversation")} data-testid="conversation">
        ${fresh && html`<${welcome} />`}
        ${items.value.map(({ id, kind, data }) => kinds[kind] && html`<${kinds[kind]} key=${id} data=${data} />`)}
        ${works && !waits && html`<${Working} />`}
        ${pending.value.map((message) => html`<${Outgoing} key=${message.key} message=${message} />`)}
        ${works && waits && html`<${Working} />`}
      </div>
      ${away &&
      html`<button type="button" class="jump icon-button" onClick=${jump} aria-label=${t("jump")}><${Icon} name="down" /></button>`}
    </div>
  `;
}
