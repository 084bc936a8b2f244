// The side: which workspace, which session.

import { Icon, Ring, html } from "./dom.js";
import { here, moreSessions, older, openSession, openWorkspace, session, sessions, workspace, workspaces } from "./state.js";
import { since, t } from "./words.js";

function nameOf(path) {
  return path.split(/[\\/]/).filter(Boolean).at(-1) || path;
}

function Workspace() {
  const path = here.value?.path || "";
  if (workspaces.value.length < 2) {
    return html`<p class="workspace" title=${path}><${Icon} name="folder" /> <span data-testid="workspace">${nameOf(path)}</span></p>`;
  }
  return html`
    <label class="workspace" title=${path}>
      <${Icon} name="folder" />
      <span class="hidden">${t("workspace")}</span>
      <select data-testid="workspace" value=${workspace.value} onChange=${(event) => openWorkspace(event.target.value)}>
        ${workspaces.value.map(
          (one) => html`<option key=${one.id} value=${one.id} selected=${one.id === workspace.value} title=${one.path}>${nameOf(one.path)}</option>`,
        )}
      </select>
    </label>
  `;
}

function Line({ one, onPick }) {
  const current = one.id === session.value;
  return html`
    <li>
      <button
        type="button"
        class="session"
        data-testid="session"
        data-session=${one.id}
        aria-current=${current ? "true" : null}
        onClick=${() => {
          if (!current) openSession(one.id);
          onPick();
        }}
      >
        <span class="title">${one.title || t("untitled")}</span>
        <time datetime=${new Date(one.updated_at).toISOString()}>${{ running: "…", waiting: t("waits") }[one.state] || since(one.updated_at)}</time>
      </button>
    </li>
  `;
}

export function Places({ onPick }) {
  const start = () => {
    if (session.value !== null) openSession(null);
    onPick();
    document.getElementById("message")?.focus();
  };
  return html`
    <header class="brand"><${Ring} /> <span>Halo</span></header>
    <${Workspace} />
    <button type="button" class="new" data-testid="new-session" onClick=${start}><${Icon} name="plus" /> ${t("newChat")}</button>
    <nav aria-label=${t("chats")}>
      <ul class="sessions" data-testid="sessions">
        ${sessions.value.map((one) => html`<${Line} key=${one.id} one=${one} onPick=${onPick} />`)}
      </ul>
      ${!sessions.value.length && html`<p class="muted">${t("noChats")}</p>`}
      ${older.value && html`<button type="button" class="plain" onClick=${moreSessions}>${t("older")}</button>`}
    </nav>
  `;
}
