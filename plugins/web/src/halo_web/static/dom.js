// Small parts that every view uses.

import htm from "htm";
import { h } from "preact";

export const html = htm.bind(h);

const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M5.5 11.5L12 5l6.5 6.5",
  down: "M12 5v14M5.5 12.5L12 19l6.5-6.5",
  chevron: "M9 6l6 6-6 6",
  copy: "M9 9h10v10H9zM5 15V5h10",
  folder: "M3.5 6.5h6l2 2.5h9v9.5h-17z",
  tool: "M14.5 6.5a4 4 0 0 1 5-1l-2.6 2.6 1 2 2 1 .1-.1M14.5 6.5a4 4 0 0 0-.6 4.6L5 20l-1-1 8.9-8.9",
  ask: "M9.2 9.2a2.9 2.9 0 1 1 4.3 2.5c-1 .6-1.5 1.2-1.5 2.3M12 17.2v.3M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17",
  warn: "M12 4.5l9 15.5H3zM12 10v4.5M12 17.2v.3",
};

/** A line drawing, hidden from screen readers: its button or its text says what it means. */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

export function Ring() {
  return html`<img class="ring" src=${new URL("icon.svg", import.meta.url).href} alt="" />`;
}

/** Text with `code` in backticks shown as code. */
export function Prose({ text }) {
  return text.split(/`([^`]+)`/).map((part, number) => (number % 2 ? html`<code>${part}</code>` : part));
}
