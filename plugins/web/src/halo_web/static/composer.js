// Where a message is written.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { asked, placeOf, running } from "./conversation.js";
import { Icon, html } from "./dom.js";
import { draftOf, keepDraft } from "./drafts.js";
import { send, session, stop, stopping, workspace } from "state";
import { t } from "./words.js";

const draftKey = () => `halo-draft:${workspace.value}:${session.value || "new"}`;

function grow(area) {
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight, 260)}px`;
}

export function Composer() {
  const area = useRef(null);
  const place = draftKey();
  const [text, setText] = useState("");

  useLayoutEffect(() => {
    setText(draftOf(place));
    // A page that this one is embedded in keeps its focus until somebody comes here.
    const invited = window === window.top || navigator.userActivation?.hasBeenActive;
    if (invited && matchMedia("(hover: hover)").matches) area.current.focus();
  }, [place]);
  useLayoutEffect(() => grow(area.current), [text]);

  function write(value) {
    setText(value);
    keepDraft(draftKey(), value);
  }

  function submit(event) {
    event.preventDefault();
    if (!text.trim()) return;
    write("");
    send(text.trim());
    area.current.focus();
  }

  function onKeyDown(event) {
    // While an input method composes, Enter picks a word.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) submit(event);
  }

  return html`
    <form class="composer" onSubmit=${submit}>
      ${asked.value &&
      html`<p class="behind muted" data-testid="behind">
        <span id="behind">${t("behindAll")}</span>
        <button type="button" class="plain" onClick=${() => document.getElementById(placeOf(asked.value.question)).focus()}>${t("toQuestion")}</button>
      </p>`}
      <div class="box">
        <label class="hidden" for="message">${t("message")}</label>
        <textarea
          id="message"
          ref=${area}
          rows="1"
          placeholder=${t("placeholder")}
          title=${t("hint")}
          enterkeyhint="send"
          aria-describedby=${asked.value ? "behind" : null}
          data-testid="composer"
          value=${text}
          onInput=${(event) => write(event.target.value)}
          onKeyDown=${onKeyDown}
        ></textarea>
        ${running.value &&
        html`<button type="button" class="stop" data-testid="stop" disabled=${stopping.value} onClick=${stop} aria-label=${t("stop")}>
          <span aria-hidden="true"></span>
        </button>`}
        <button type="submit" class="send" data-testid="send" disabled=${!text.trim()} aria-label=${t("send")}><${Icon} name="send" /></button>
      </div>
    </form>
  `;
}
