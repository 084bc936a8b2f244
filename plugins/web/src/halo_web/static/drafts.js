// What was written and not sent, for this tab. A browser may refuse to keep it for a frame: then it is kept until a reload.

const here = new Map();

export function draftOf(place) {
  try {
    return sessionStorage.getItem(place) || "";
  } catch {
    return here.get(place) || "";
  }
}

export function keepDraft(place, text) {
  try {
    if (text) sessionStorage.setItem(place, text);
    else sessionStorage.removeItem(place);
  } catch {
    here.set(place, text);
  }
}
