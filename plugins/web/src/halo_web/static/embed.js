// The chat that other pages embed: halo-chat.js makes its frame, and tells it the token.

import { signal } from "@preact/signals";
import { render } from "preact";
import { Composer } from "./composer.js";
import { Icon, Ring, html } from "./dom.js";
import { Conversation } from "./talk.js";
import { come, connection, download, openSession, phase, session, spoken, start, title } from "./visit.js";
import { language, t } from "./words.js";

const missing = signal("");

function Welcome() {
  return html`<section class="welcome"><${Ring} /><h2>${t("welcome")}</h2></section>`;
}

function Attached({ data }) {
  const { path } = data.value;
  const name = path.split(/[\\/]/).at(-1);
  const save = async () => {
    missing.value = (await download(path)) ? "" : path;
  };
  return html`<p class="attached" data-testid="file">
    <button type="button" onClick=${save}>${t("download", { name })}</button>
    ${missing.value === path && html`<span class="wrong" role="alert">${t("notThere", { name })}</span>`}
  </p>`;
}

function Head() {
  return html`
    <header class="head">
      <h1>${title.value || t("chat")}</h1>
      ${session.value !== null &&
      html`<button type="button" class="icon-button" aria-label=${t("newChat")} title=${t("newChat")} data-testid="new-session"
        onClick=${() => openSession(null)}><${Icon} name="plus" /></button>`}
    </header>
  `;
}

function Connection() {
  if (connection.value === "live") return null;
  return html`
    <p class="connection" role="status" data-testid="connection" data-state=${connection.value}>
      <span>${t("lost")}</span>
      <button type="button" class="plain" onClick=${() => dispatchEvent(new Event("halo-retry"))}>${t("retryNow")}</button>
    </p>
  `;
}

function App() {
  if (phase.value === "starting") return null;
  if (phase.value === "refused") return html`<main class="door" data-testid="refused-token"><p>${t("notAccepted")}</p></main>`;
  return html`
    <main class="main embedded">
      <${Head} />
      <${Conversation} welcome=${Welcome} more=${{ file: Attached }} />
      <${Connection} />
      <${Composer} />
    </main>
    <div class="hidden" role="status">${spoken.value}</div>
  `;
}

document.documentElement.lang = language;
render(html`<${App} />`, document.getElementById("app"));

// Whoever embeds this gives a token of its own; there is nothing here that it could take.
addEventListener("message", ({ source, origin, data }) => {
  if (source !== parent) return;
  if (data?.type === "halo-config" && phase.value === "starting") start(data, origin);
  if (data?.type === "halo-session") come(data.session);
});
if (parent === window) start({}, "*");
else parent.postMessage({ type: "halo-ready" }, "*");
