// What stands in for the conversation when there is none yet.

import { useState } from "preact/hooks";
import { Ring, html } from "./dom.js";
import { openFolder, passwords, signIn } from "./state.js";
import { t } from "./words.js";

function Door({ title, testid, children }) {
  return html`
    <main class="door" data-testid=${testid}>
      <${Ring} />
      <h1>${title}</h1>
      ${children}
    </main>
  `;
}

function Password() {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await signIn(event.target.elements.password.value);
    } catch (refused) {
      setError(refused.status === 401 ? t("wrongPassword") : refused.message);
    }
    setBusy(false);
  }
  return html`
    <form onSubmit=${submit}>
      <label for="password">${t("signInPassword")}</label>
      <div class="row">
        <input id="password" name="password" type="password" autocomplete="current-password" required
          aria-label=${t("password")} data-testid="password" />
        <button type="submit" disabled=${busy} data-testid="sign-in">${t("signIn")}</button>
      </div>
      ${error && html`<p class="wrong" role="alert" data-testid="sign-in-error">${error}</p>`}
    </form>
  `;
}

export function SignIn() {
  return html`
    <${Door} title=${t("signIn")} testid="signed-out">
      <p>${t("signInLink")}</p>
      <pre tabindex="0"><code>halo up</code></pre>
      ${passwords.value && html`<${Password} />`}
    <//>
  `;
}

export function Unreachable() {
  return html`
    <${Door} title="Halo" testid="unreachable">
      <p role="alert">${t("unreachable")} ${t("stopped")} <code>halo up</code>. ${t("back")}</p>
      <button type="button" onClick=${() => dispatchEvent(new Event("halo-retry"))}>${t("retryNow")}</button>
    <//>
  `;
}

function Folder() {
  const [error, setError] = useState("");
  async function submit(event) {
    event.preventDefault();
    setError("");
    try {
      await openFolder(event.target.elements.folder.value);
    } catch (refused) {
      setError([refused.message, refused.advice].filter(Boolean).join(". "));
    }
  }
  return html`
    <form onSubmit=${submit}>
      <label for="folder">${t("folderHow")}</label>
      <div class="row">
        <input id="folder" name="folder" autocomplete="off" placeholder=${t("folderOwn")} data-testid="folder" />
        <button type="submit" data-testid="open-folder">${t("openFolder")}</button>
      </div>
      ${error && html`<p class="wrong" role="alert">${error}</p>`}
    </form>
  `;
}

export function NoWorkspace() {
  return html`
    <${Door} title=${t("noWorkspace")} testid="no-workspace">
      <p>${t("noWorkspaceHow")}</p>
      <pre tabindex="0"><code>halo up</code></pre>
      <${Folder} />
    <//>
  `;
}
