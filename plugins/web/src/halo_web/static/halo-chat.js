// Puts a chat into any page: <script src="https://halo.example/web/halo-chat.js" data-token="…"></script>
//
// data-token    the token of a web account; or set window.haloChatToken to it, or to a function that resolves to it
// data-target   a selector: the chat fills that element; without it a button in the corner opens the chat
// data-title    what stands above the chat
// data-agent    the agent of new conversations
// data-name     keeps several chats of one page apart
//
// The chat is a frame of the server's own: it shares neither styles nor scripts with the page, and gets the token by a message to
// that frame alone, never in an address.

(() => {
  const script = document.currentScript;
  const { token, target, title = "", agent = "", name = "" } = script.dataset;
  const home = new URL("embed.html", script.src);

  async function found() {
    const given = token || window.haloChatToken;
    return typeof given === "function" ? given() : given;
  }

  /** A few digits that tell tokens apart and lead back to none. */
  function digest(text) {
    let sum = 0;
    for (const sign of text) sum = (Math.imul(sum, 31) + sign.codePointAt(0)) | 0;
    return (sum >>> 0).toString(36);
  }

  function kept(store, place) {
    try {
      return store().getItem(place);
    } catch {
      return null;
    }
  }

  function keep(store, place, value) {
    try {
      if (value === null) store().removeItem(place);
      else store().setItem(place, value);
    } catch {
      // Then a reload begins anew.
    }
  }

  const stores = { session: () => localStorage, outgoing: () => sessionStorage };

  /** Tell a frame what it asks for: the token, what this page has kept for it, and what other tabs do. */
  async function serve(made) {
    const given = String((await found().catch(() => "")) || "");
    const place = `halo-chat:${home.origin}:${name}:${digest(given)}`;
    const tell = (message) => made.contentWindow?.postMessage(message, home.origin);
    addEventListener("message", ({ source, origin, data }) => {
      if (source !== made.contentWindow || origin !== home.origin) return;
      if (data?.type === "halo-keep" && data.what in stores) keep(stores[data.what], place, data.value);
    });
    addEventListener("storage", (event) => {
      if (event.key === place && event.storageArea === localStorage) tell({ type: "halo-session", session: event.newValue });
    });
    const config = { type: "halo-config", token: given, title, agent, place };
    tell({ ...config, session: kept(stores.session, place), outgoing: kept(stores.outgoing, place) });
  }

  function frame() {
    const made = document.createElement("iframe");
    made.title = title || "Chat";
    made.src = home.href;
    made.allow = "clipboard-write";
    made.style.cssText = "border:0;width:100%;height:100%;display:block;color-scheme:normal";
    const ready = ({ source, origin, data }) => {
      if (source !== made.contentWindow || origin !== home.origin || data?.type !== "halo-ready") return;
      removeEventListener("message", ready);
      serve(made);
    };
    addEventListener("message", ready);
    return made;
  }

  function corner() {
    const host = document.createElement("div");
    const root = host.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`
      button { all: unset; position: fixed; right: 20px; bottom: 20px; width: 56px; height: 56px; border-radius: 50%;
        background: #5b4bd6; cursor: pointer; box-shadow: 0 6px 24px #0004; z-index: 2147483000; display: grid; place-items: center; }
      button:focus-visible { outline: 3px solid #9d91ff; outline-offset: 2px; }
      svg { width: 26px; height: 26px; fill: none; stroke: #fff; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round; }
      div { position: fixed; right: 20px; bottom: 88px; width: 400px; height: min(640px, calc(100dvh - 108px)); border-radius: 16px;
        overflow: hidden; box-shadow: 0 12px 48px #0005; z-index: 2147483000; background: Canvas; }
      div[hidden] { display: none; }
      @media (max-width: 480px) {
        div { inset: 0 0 84px 0; width: auto; height: auto; border-radius: 0; }
      }
    `);
    root.adoptedStyleSheets = [sheet];
    const panel = document.createElement("div");
    panel.hidden = true;
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-label", title || "Chat");
    button.setAttribute("aria-expanded", "false");
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("viewBox", "0 0 24 24");
    drawing.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    drawing.append(path);
    button.append(drawing);
    const draw = () => path.setAttribute("d", panel.hidden ? "M4 5h16v11H9l-5 4z" : "M6 6l12 12M18 6L6 18");
    button.addEventListener("click", () => {
      if (!panel.firstChild) panel.append(frame());
      panel.hidden = !panel.hidden;
      button.setAttribute("aria-expanded", String(!panel.hidden));
      draw();
    });
    draw();
    root.append(panel, button);
    document.body.append(host);
  }

  function begin() {
    if (!target) return corner();
    const place = document.querySelector(target);
    if (place) place.append(frame());
    else console.error(`halo-chat: the page has no element ${target}`);
  }

  if (document.body && document.readyState !== "loading") begin();
  else addEventListener("DOMContentLoaded", begin);
})();
