// Requests to the plan's API. A refusal is an error with the server's own words and cure.

import { session, token } from "./session";

const AGAIN_MS = [100, 400];
const NO_TOKEN = 401;

export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly summary: string,
    readonly hint: string,
  ) {
    super(summary);
  }
}

/** What went wrong as words for a person, whatever was thrown. */
export function refusedOf(error: unknown): Refused {
  return error instanceof Refused ? error : new Refused(0, String(error), "");
}

/** The answer to GET `path`, which is below the plan; with a leading slash it is below /v1 itself. */
export function get<T>(path: string, query: Record<string, string | number> = {}): Promise<T> {
  const pairs = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  const words = pairs.toString();
  return ask<T>(words ? `${path}?${words}` : path, { method: "GET" });
}

/** Whether the server answers, and takes the token of this page no more. */
export function isLinkDead(): Promise<boolean> {
  return get("/session").then(
    () => false,
    (refused: unknown) => refused instanceof Refused && refused.status === NO_TOKEN,
  );
}

/** The answer to POST `path` below the plan. */
export function post<T>(path: string, body: unknown): Promise<T> {
  return ask<T>(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
}

/** Where the log called `log` is listened to, after its revision `after`. */
export function tailAddress(after: number, log: string): string {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return `${scheme}://${location.host}/v1/plans/${encodeURIComponent(session.value.plan)}/tail?after=${after}&log=${encodeURIComponent(log)}`;
}

/** What GET `path` gives, as it is: a picture, a text, a file. */
export async function getBlob(path: string): Promise<Blob> {
  return (await answered(path, { method: "GET" })).blob();
}

async function ask<T>(path: string, init: RequestInit): Promise<T> {
  return (await (await answered(path, init)).json()) as T;
}

/** The answer to a request that was granted. Throws Refused. */
async function answered(path: string, init: RequestInit): Promise<Response> {
  const place = path.startsWith("/") ? `/v1${path}` : `/v1/plans/${encodeURIComponent(session.value.plan)}/${path}`;
  const headers = { ...init.headers, Authorization: `Bearer ${token}` };
  const answer = await sent(place, { ...init, headers, cache: "no-store" });
  if (!answer.ok) {
    const body = (await answer.json().catch(() => ({}))) as { error?: { summary: string; hint: string } };
    throw new Refused(answer.status, body.error?.summary ?? `the server says ${answer.status}`, body.error?.hint ?? "");
  }
  return answer;
}

/**
 * The answer of the server. A read is asked again: browsers drop what is under way when a network of the machine comes
 * or goes, as those of containers do.
 */
async function sent(place: string, init: RequestInit): Promise<Response> {
  const waits = init.method === "GET" ? [...AGAIN_MS] : [];
  for (;;) {
    try {
      return await fetch(place, init);
    } catch {
      const wait = waits.shift();
      if (wait === undefined) throw new Refused(0, "the server does not answer", "is plan serve still running?");
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}
