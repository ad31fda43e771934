// HTTP requests to the server of this page. An error response is thrown as Refusal, with the message of the server.

export class Refusal extends Error {
  constructor(status, error = {}) {
    super(error.message ?? `the server returned status ${status}`);
    this.status = status;
    this.code = error.code ?? "";
    this.reasons = error.reasons ?? [];
  }
}

export class Unreachable extends Error {}

/** Request JSON. Throws Refusal for an error response, Unreachable if there is none. */
export async function request(path, { method = "GET", body } = {}) {
  const headers = method === "GET" && body === undefined ? {} : { "Content-Type": "application/json" };
  const text = body === undefined ? undefined : JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { method, headers, body: text, credentials: "same-origin" });
  } catch {
    throw new Unreachable("the server cannot be reached");
  }
  const result = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, result.error);
  return result;
}

export const post = (path, body) => request(path, { method: "POST", body });
export const remove = (path) => request(path, { method: "DELETE" });

/** Read the pages of a result, at most `maxPages`. */
export async function* readPages(path, maxPages = 20) {
  for (let next = path, count = 0; next && count < maxPages; count += 1) {
    const page = await request(next);
    yield page;
    next = page.next;
  }
}
