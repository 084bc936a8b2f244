// A question that keeps the turn waiting, at the call that it is about.

import { useRef, useState } from "preact/hooks";
import { placeOf } from "./conversation.js";
import { Icon, html } from "./dom.js";
import { answer } from "state";
import { momentOf, t } from "./words.js";

function settled({ state, by, answer: text }) {
  const name = { approved: "allowedBy", denied: by ? "refusedBy" : "refusedSo", expired: "expired" }[state];
  const how = t(name, { by });
  return text ? t("withWords", { how, text }) : how;
}

function Choices({ options, busy, choose }) {
  const [own, setOwn] = useState("");
  const say = (approved) => choose(approved, own.trim());
  // No form: Enter in the field must not allow anything.
  return html`
    ${!options.length &&
    html`<input aria-label=${t("ownAnswer")} placeholder=${t("ownAnswer")} maxlength="10000" autocomplete="off" disabled=${busy}
      data-testid="own-answer" value=${own} onInput=${(event) => setOwn(event.target.value)} />`}
    <p class="actions">
      ${options.map((text) => html`<button type="button" disabled=${busy} data-testid="option" onClick=${() => choose(true, text)}>${text}</button>`)}
      <button type="button" class="allow" disabled=${busy} data-testid="allow" onClick=${() => say(true)}>${t("allow")}</button>
      <button type="button" disabled=${busy} data-testid="refuse" onClick=${() => say(false)}>${t("refuse")}</button>
    </p>
  `;
}

export function Question({ data }) {
  const card = useRef(null);
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState(null);
  const { question, name, input, text, options, until, state = "open" } = data.value;
  const open = state === "open";
  const place = placeOf(question);

  async function choose(approved, words) {
    card.current.focus({ preventScroll: true }); // a disabled button would lose the focus to nowhere
    setBusy(true);
    const refused = await answer(question, approved, words);
    setRefusal(refused);
    setBusy(!refused || refused.over);
  }

  return html`
    <section class=${`question ${state}`} id=${place} ref=${card} tabindex="-1" role="group" aria-labelledby=${`${place}-head`}
      data-testid="question" data-state=${state}>
      <p id=${`${place}-head`}><${Icon} name="ask" /> <strong>${t(open ? "asks" : "asked")}</strong> ${name && html`<code>${name}</code>`}</p>
      <p class="words" data-testid="question-text">${text}</p>
      ${open && input && html`<pre tabindex="0" aria-label=${t("arguments")} data-testid="question-arguments">${JSON.stringify(input, null, 2)}</pre>`}
      ${open && html`<${Choices} options=${options} busy=${busy} choose=${choose} />`}
      ${refusal && (open || refusal.over) && html`<p class="wrong" role="alert" data-testid="question-error">${refusal.said}</p>`}
      <p class="muted" role="status" aria-live="polite" data-testid="question-state">
        ${open ? t("until", { time: momentOf(until) }) : settled(data.value)}
      </p>
    </section>
  `;
}
