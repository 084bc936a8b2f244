// An answer's markdown as safe HTML: what a model writes as HTML is shown as text, images become links.

import DOMPurify from "dompurify";
import { Marked, Renderer } from "marked";
import { t } from "./words.js";

const plain = new Renderer();

function escape(text) {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function anchor(href, label) {
  if (!/^(https?:|mailto:)/i.test(href)) return `<code>${label}</code>`;
  return `<a href="${escape(href)}" target="_blank" rel="noopener noreferrer nofollow">${label}</a>`;
}

const renderer = {
  html({ text }) {
    return escape(text);
  },
  link({ href, tokens }) {
    return anchor(href, this.parser.parseInline(tokens));
  },
  image({ href, text }) {
    return anchor(href, escape(text || href));
  },
  checkbox({ checked }) {
    return checked ? "☑ " : "☐ ";
  },
  code({ text, lang }) {
    const language = escape((lang || "").split(/\s/)[0]);
    const bar = `<div class="code-bar"><span>${language}</span><button type="button" class="copy">${t("copy")}</button></div>`;
    return `<div class="code">${bar}<pre tabindex="0"><code>${escape(text)}</code></pre></div>`;
  },
  table(token) {
    plain.parser = this.parser;
    return `<div class="table" tabindex="0">${plain.table(token)}</div>`;
  },
};

const marked = new Marked({ gfm: true, breaks: true, renderer });

/** `text` as HTML that can be put into the page. */
export function markdown(text) {
  return DOMPurify.sanitize(marked.parse(text), {
    USE_PROFILES: { html: true },
    ADD_ATTR: ["target"],
    FORBID_TAGS: ["style", "form", "input", "img", "audio", "video"],
    FORBID_ATTR: ["style", "id", "name"],
  });
}
