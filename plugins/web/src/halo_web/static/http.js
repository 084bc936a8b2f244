// Requests to the server this page came from, whatever path it lives under.

const BASE = new URL("../", import.meta.url);

let token = "";

/** Ask with the token of an account from now on, and without cookies. */
export function present(value) {
  token = value;
}

/** A refusal by the server: `status` is 0 when it could not be reached. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.error || `HTTP ${status}`);
    this.status = status;
    this.body = body;
    this.advice = body.advice || "";
  }
}

/** The address of `path` with those of `query` that have a value. */
export function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** Ask, and return the response; throws `Refused`. */
export async function ask(path, { query, body, signal, headers } = {}) {
  const options = { signal, cache: "no-store", headers: { ...headers } };
  if (token) {
    options.credentials = "omit";
    options.headers["x-token"] = token;
  }
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(address(path, query), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { error: String(error.message || error) });
  }
  if (response.ok) return response;
  throw new Refused(response.status, await response.json().catch(() => ({})));
}

export async function get(path, query) {
  return (await ask(path, { query })).json();
}

export async function post(path, body) {
  return (await ask(path, { body })).json();
}

/** A random key, in insecure contexts too, where `crypto.randomUUID` is missing. */
export function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
