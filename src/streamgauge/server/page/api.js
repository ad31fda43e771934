// Requests to the server of this page. Refusals are errors with the text of the server.

export class Refusal extends Error {
  constructor(status, error = {}) {
    super(error.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = error.code ?? "";
    this.reasons = error.reasons ?? [];
  }
}

export class Unreachable extends Error {}

export async function ask(path, { method = "GET", body } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const unsafe = method !== "GET" && body === undefined ? { "Content-Type": "application/json" } : headers;
  let answer;
  try {
    answer = await fetch(path, { method, headers: unsafe, body: sent, credentials: "same-origin" });
  } catch {
    throw new Unreachable("the server cannot be reached");
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, told.error);
  return told;
}

export const post = (path, body) => ask(path, { method: "POST", body });
export const remove = (path) => ask(path, { method: "DELETE" });

/** Read pages to the end, or until `enough` of them were read. */
export async function* pages(path, enough = 20) {
  for (let next = path, read = 0; next && read < enough; read += 1) {
    const page = await ask(next);
    yield page;
    next = page.next;
  }
}
