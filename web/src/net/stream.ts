/** One stream of news, which comes back by itself. Who listens is told when it is lost and when it lives. */
import type { Connection, News } from "../model/world";
import { withSecret } from "./secret";
import { SseParser } from "./sse";

const SILENCE_MS = 35_000; // the server says ": alive" every 15 s
const ANSWER_MS = 10_000; // for the head of the answer; a line that is dead says nothing for ever
const BACKOFF_MS = [0, 250, 500, 1000, 2000];

/** `raw` is the news as it came, where that is cheaper to hand on than the object. */
export type Told = (news: News, raw?: string) => void;

export class Stream {
  private watched: string[] = [];
  private opened: AbortController | null = null;
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private state: Connection = "connecting";
  private closed = false;
  secret = ""; // of the page, see secret.ts

  constructor(private readonly base: string, private readonly tell: Told) {}

  /** Watch these from now on. The old stream goes on until the new one speaks, so nothing is missed. */
  watch(journals: readonly string[]): void {
    this.watched = [...journals];
    this.retry();
  }

  /** Try again at once: somebody has pressed Retry, or the network is back. */
  retry(): void {
    this.tries = 0;
    clearTimeout(this.timer);
    void this.open();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.opened?.abort();
  }

  private async open(): Promise<void> {
    const before = this.opened;
    const mine = new AbortController();
    this.opened = mine;
    const current = () => this.opened === mine && !this.closed;
    const silent = () => {
      if (current()) this.is("lost");
      mine.abort();
    };
    const unanswered = setTimeout(silent, ANSWER_MS);
    try {
      const answer = await fetch(this.address(), { ...this.asking(), signal: mine.signal });
      clearTimeout(unanswered);
      if (!answer.ok || !answer.body) {
        before?.abort();
        if (current()) await this.refused(answer);
        return;
      }
      await this.read(answer.body, mine, before, silent);
    } catch {
      // the network, silence, or abort() by a newer stream
    } finally {
      clearTimeout(unanswered);
    }
    before?.abort();
    if (current()) this.later("");
  }

  private asking(): RequestInit {
    return { headers: withSecret(this.secret), credentials: "same-origin", cache: "no-store" };
  }

  private address(): string {
    const query = new URLSearchParams({ views: "1", index: "1" });
    for (const journal of this.watched) query.append("watch", journal);
    return new URL(`v1/events?${query}`, this.base).href;
  }

  private async read(body: ReadableStream<Uint8Array>, mine: AbortController, before: AbortController | null, silent: () => void) {
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    const parser = new SseParser();
    let silence: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(silent, SILENCE_MS);
    };
    try {
      for (alive(); ; alive()) {
        const { done, value } = await reader.read();
        if (done || mine.signal.aborted) return; // a newer one speaks: what this one still says is in its views
        before?.abort();
        this.tries = 0;
        this.is("live");
        for (const sent of parser.push(value)) this.heard(sent.event, sent.data);
      }
    } finally {
      clearTimeout(silence);
    }
  }

  private heard(event: string, data: string): void {
    if (!["view", "patch", "delta", "row", "switches"].includes(event)) return;
    this.tell({ kind: event, ...(JSON.parse(data) as object) } as News, event === "view" ? data : undefined);
  }

  private async refused(answer: Response): Promise<void> {
    if (answer.status === 401) return this.is("shut");
    const problem = (await answer.json().catch(() => ({}))) as { message?: string };
    if (answer.status === 404) await this.dropGone();
    this.later(problem.message ?? "");
  }

  /** One of the watched is not there any more; it must not cost the others their news. */
  private async dropGone(): Promise<void> {
    for (const journal of [...this.watched]) {
      const kind = journal.startsWith("t-") ? "threads" : "runs";
      const found = await fetch(new URL(`v1/${kind}/${encodeURIComponent(journal)}`, this.base), this.asking()).catch(() => null);
      if (found?.status !== 404) continue;
      this.watched = this.watched.filter((other) => other !== journal);
      this.tell({ kind: "gone", journal });
    }
  }

  private later(why: string): void {
    if (this.tries > 0 || why) this.is("lost", why);
    const wait = BACKOFF_MS[Math.min(this.tries++, BACKOFF_MS.length - 1)]!;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.open(), wait);
  }

  private is(state: Connection, why = ""): void {
    if (state === this.state && state !== "lost") return;
    this.state = state;
    this.tell({ kind: "connection", state, why });
  }
}
