// The page.

import { effect, signal } from "@preact/signals";
import { render } from "preact";
import { ModelName, NoModel } from "./answerer.js";
import { Composer } from "./composer.js";
import { NoWorkspace, SignIn, Unreachable } from "./doors.js";
import { Icon, Ring, html } from "./dom.js";
import { Places } from "./places.js";
import { agents, complaint, connection, here, phase, send, sessions, session, spoken, start, title, workspaces } from "./state.js";
import { Conversation } from "./talk.js";
import { language, t } from "./words.js";

const drawer = signal(false);
const close = () => {
  drawer.value = false;
};

function Connection() {
  if (connection.value === "live") return null;
  const stopped = connection.value === "stopped";
  return html`
    <p class="connection" role="status" data-testid="connection" data-state=${connection.value}>
      ${stopped ? html`<span>${t("stopped")} <code>halo up</code>. ${t("back")}</span>` : html`<span>${t("lost")}</span>`}
      <button type="button" class="plain" onClick=${() => dispatchEvent(new Event("halo-retry"))}>${t("retryNow")}</button>
    </p>
  `;
}

function Complaint() {
  if (!complaint.value) return null;
  return html`
    <p class="connection" role="alert" data-testid="complaint">
      <span>${complaint.value}</span>
      <button type="button" class="icon-button" aria-label=${t("close")} onClick=${() => (complaint.value = "")}><${Icon} name="close" /></button>
    </p>
  `;
}

function agentName() {
  const open = sessions.value.find((one) => one.id === session.value);
  const agent = agents.value.find((one) => one.id === open?.agent) || (open ? null : agents.value[0]);
  return agent?.name || open?.agent || "";
}

function Head() {
  return html`
    <header class="head">
      <button type="button" class="icon-button menu" aria-label=${t("menu")} aria-expanded=${drawer.value} data-testid="menu"
        onClick=${() => (drawer.value = true)}><${Icon} name="menu" /></button>
      <h1 data-testid="title">${session.value ? title.value || t("untitled") : t("newChat")}</h1>
      <span class="who"><span class="agent" data-testid="agent-name">${agentName()}</span> <${ModelName} testid="model-name" /></span>
    </header>
  `;
}

function Welcome() {
  return html`
    <section class="welcome">
      <${Ring} />
      <h2>${t("welcome")}</h2>
      <p class="muted">${t("welcomeIn")} <code>${here.value?.path}</code></p>
      <div class="suggestions">
        ${t("suggest").map((text) => html`<button key=${text} type="button" onClick=${() => send(text)}>${text}</button>`)}
      </div>
    </section>
  `;
}

function Room() {
  return html`
    <div class=${drawer.value ? "room open" : "room"} onKeyDown=${(event) => event.key === "Escape" && close()}>
      <aside class="side" data-testid="side"><${Places} onPick=${close} /></aside>
      <div class="veil" onClick=${close}></div>
      <main class="main">
        <${Head} />
        <${NoModel} />
        <${Complaint} />
        <${Conversation} welcome=${Welcome} />
        <${Connection} />
        <${Composer} />
      </main>
    </div>
  `;
}

function App() {
  if (phase.value === "out") return html`<${SignIn} />`;
  if (phase.value === "unreachable") return html`<${Unreachable} />`;
  if (phase.value !== "in") return null;
  return html`${workspaces.value.length ? html`<${Room} />` : html`<${NoWorkspace} />`}
    <div class="hidden" role="status">${spoken.value}</div>`;
}

document.documentElement.lang = language;
effect(() => {
  document.title = [title.value, here.value?.path.split(/[\\/]/).at(-1), "Halo"].filter(Boolean).join(" · ");
});
render(html`<${App} />`, document.getElementById("app"));
start();
