// Requests to the plan's API. A rejected request throws Refused, with the server's message and hint.

import { session, token } from "./session";

const RETRY_MS = [100, 400];
const UNAUTHORIZED = 401;

export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly summary: string,
    readonly hint: string,
  ) {
    super(summary);
  }
}

/** Returns any thrown value as a Refused. */
export function refusedOf(error: unknown): Refused {
  return error instanceof Refused ? error : new Refused(0, String(error), "");
}

/** Returns the answer to GET `path`, relative to the plan; with a leading slash, relative to /v1. Throws Refused. */
export function get<T>(path: string, query: Record<string, string | number> = {}): Promise<T> {
  const pairs = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  const search = pairs.toString();
  return ask<T>(search ? `${path}?${search}` : path, { method: "GET" });
}

/** Whether the server answers and rejects the token of this page. */
export function isLinkRevoked(): Promise<boolean> {
  return get("/session").then(
    () => false,
    (refused: unknown) => refused instanceof Refused && refused.status === UNAUTHORIZED,
  );
}

/** Returns the answer to POST `path`, relative to the plan. Throws Refused. */
export function post<T>(path: string, body: unknown): Promise<T> {
  return ask<T>(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
}

/** Returns the websocket address that follows the log `log` from after its revision `after`. */
export function tailAddress(after: number, log: string): string {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return `${scheme}://${location.host}/v1/plans/${encodeURIComponent(session.value.plan)}/tail?after=${after}&log=${encodeURIComponent(log)}`;
}

/** Returns the body of GET `path`, such as a picture or a text. Throws Refused. */
export async function getBlob(path: string): Promise<Blob> {
  return (await answered(path, { method: "GET" })).blob();
}

async function ask<T>(path: string, init: RequestInit): Promise<T> {
  return (await (await answered(path, init)).json()) as T;
}

/** Returns the response to a request that succeeded. Throws Refused. */
async function answered(path: string, init: RequestInit): Promise<Response> {
  const place = path.startsWith("/") ? `/v1${path}` : `/v1/plans/${encodeURIComponent(session.value.plan)}/${path}`;
  const headers = { ...init.headers, Authorization: `Bearer ${token}` };
  const answer = await sent(place, { ...init, headers, cache: "no-store" });
  if (!answer.ok) {
    const body = (await answer.json().catch(() => ({}))) as { error?: { summary: string; hint: string } };
    throw new Refused(answer.status, body.error?.summary ?? `The server returned status ${answer.status}.`, body.error?.hint ?? "");
  }
  return answer;
}

/**
 * Returns the response of the server. Retries a GET: browsers abort open requests when a network interface appears or
 * disappears, which happens when containers start and stop.
 */
async function sent(place: string, init: RequestInit): Promise<Response> {
  const waits = init.method === "GET" ? [...RETRY_MS] : [];
  for (;;) {
    try {
      return await fetch(place, init);
    } catch {
      const wait = waits.shift();
      if (wait === undefined) throw new Refused(0, "The server does not answer.", "Check that `plan serve` is still running.");
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}
