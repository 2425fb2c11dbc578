/** The server's routes. A control goes under a key of its own, so that repeating it does nothing twice. */
import type { Ack, Me, Problem, Row } from "../model/types";
import { keepPageSecret, pageSecret, withSecret } from "./secret";

export const base = (): string => new URL(".", document.baseURI).href;
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The server has answered, and said no. */
export class Refused extends Error {
  constructor(readonly status: number, readonly problem: Problem) {
    super(problem.message);
  }
}

/** No answer: nobody knows whether it was done, and the same key may be sent again. */
export class Unreachable extends Error {
  constructor(host: string, readonly late = false) {
    super(host);
  }
}

const ANSWER_MS = 10_000;
const TOO_QUICK = 429;
const WAITS_MAX = 3;
const WAIT_MAX_S = 5;

function bounded(given: AbortSignal | null | undefined): AbortSignal {
  const late = AbortSignal.timeout(ANSWER_MS);
  return given ? AbortSignal.any([given, late]) : late;
}

async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    const headers = { ...(init.headers as Record<string, string>), ...withSecret(pageSecret()) };
    return await fetch(new URL(path, base()), { ...init, headers, credentials: "same-origin", signal: bounded(init.signal) });
  } catch (error) {
    throw new Unreachable(location.host, error instanceof DOMException && error.name === "TimeoutError");
  }
}

/** Who is told to be slower has been refused nothing yet: a page that is loaded often must not say that there is no such run. */
async function patiently(path: string, init: RequestInit): Promise<Response> {
  let answer = await reach(path, init);
  for (let waits = 0; answer.status === TOO_QUICK && waits < WAITS_MAX; waits++) {
    const seconds = Math.min(Number(answer.headers.get("retry-after")) || 1, WAIT_MAX_S);
    await new Promise((done) => setTimeout(done, seconds * 1000));
    answer = await reach(path, init);
  }
  return answer;
}

async function ask(path: string, init: RequestInit): Promise<unknown> {
  const answer = await patiently(path, init);
  const body: unknown = await answer.json().catch(() => null);
  if (answer.ok) return body;
  if ([502, 503, 504].includes(answer.status) && body === null) throw new Unreachable(location.host);
  const problem = (body ?? { error: "failed", message: `The server answered ${answer.status}.`, changed: null }) as Problem;
  throw new Refused(answer.status, problem);
}

export const get = <T>(path: string): Promise<T> => ask(path, { method: "GET", cache: "no-store" }) as Promise<T>;

export const post = <T = Ack>(path: string, body: unknown, key = newKey(), signal: AbortSignal | null = null): Promise<T> =>
  ask(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-midflight": "1", "idempotency-key": key },
    body: JSON.stringify(body),
    signal,
  }) as Promise<T>;

const part = encodeURIComponent;

export const api = {
  me: () => get<Me>("v1/me"),
  comeIn: async (code: string) => keepPageSecret((await post<{ page_secret: string }>("v1/session", { code })).page_secret),
  leave: async () => {
    await post<unknown>("v1/leave", {});
    keepPageSecret("");
  },
  runs: (query: Record<string, string>, phases: readonly string[] = []) =>
    get<{ rows: Row[]; next: string }>(`v1/runs?${new URLSearchParams([...Object.entries(query), ...phases.map((phase) => ["phase", phase])])}`),
  row: (run: string) => get<{ run: string; thread: string }>(`v1/runs/${part(run)}`),
  thread: (thread: string) => get<{ thread: string; front: string; runs: Row[] }>(`v1/threads/${part(thread)}`),
  records: (run: string, after: number, limit: number) =>
    get<{ records: { position: number; at: number; event: Record<string, unknown> }[] }>(
      `v1/runs/${part(run)}/records?after=${after}&limit=${limit}`,
    ),
  result: (run: string) => get<{ phase: string; error: string; result: unknown }>(`v1/runs/${part(run)}/result`),
  start: (body: Record<string, unknown>, key: string) => post("v1/runs", body, key),
  verb: (run: string, verb: string, body: unknown, key: string, signal?: AbortSignal) =>
    post(`v1/runs/${part(run)}/${verb}`, body, key, signal),
  talk: (thread: string, verb: string, body: unknown, key: string) => post(`v1/threads/${part(thread)}/${verb}`, body, key),
  kill: (scope: string, reason: string) => post<{ killed: Record<string, unknown> }>("v1/operator/kill", { scope, reason }),
  release: (scope: string) => post<unknown>("v1/operator/release", { scope }),
  switches: () => get<{ switches: import("../model/types").Switch[] }>("v1/operator/switches"),
};
