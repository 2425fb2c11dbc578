/**
 * One stream for all tabs: a browser has six connections to a server, and the cancel needs one.
 *
 * The hub folds what it hears, so that a tab that comes later is told at once how things stand. It runs in a
 * SharedWorker; where there is none, each tab has a hub of its own.
 */
import { Misfit } from "../model/patch";
import { hear, NOTHING_KNOWN, only, type News, type World } from "../model/world";
import { Stream } from "./stream";

export type Ask =
  | { ask: "secret"; secret: string }
  | { ask: "watch"; journals: string[] }
  | { ask: "held"; lock: string }
  | { ask: "again"; journal: string }
  | { ask: "retry"; evenIfLive: boolean }
  | { ask: "bye" };

/** A view of a long run is megabytes: as text it crosses to a tab in no time, and the tab reads it itself. */
export interface Whole { kind: "whole"; text: string }
export type Posted = News | Whole;

export function opened(posted: Posted): News {
  return posted.kind === "whole" ? ({ kind: "view", ...(JSON.parse(posted.text) as object) } as News) : posted;
}

/** The part of a MessagePort that is used here. */
export interface Port {
  postMessage(news: Posted): void;
  onmessage: ((message: MessageEvent<Ask>) => void) | null;
}

const WATCHED_MAX = 64; // as the server has it
const GATHER_MS = 15; // a tab that opens asks for its run and its thread in two breaths

export class Hub {
  private world: World = NOTHING_KNOWN;
  private readonly ports = new Map<Port, string[]>();
  private readonly stream: Stream;
  private watched = "";
  private readonly awaited = new Set<string>(); // of which the whole is asked for
  private gathering: ReturnType<typeof setTimeout> | undefined;

  constructor(base: string, private readonly now: () => number) {
    this.stream = new Stream(base, (news, raw) => this.heard(news, raw));
  }

  join(port: Port): void {
    this.ports.set(port, []);
    port.onmessage = (message) => this.asked(port, message.data);
    port.postMessage({ kind: "connection", state: this.world.connection, why: this.world.why });
    port.postMessage({ kind: "switches", at: this.serverTime(), switches: [...this.world.switches] });
  }

  private asked(port: Port, ask: Ask): void {
    switch (ask.ask) {
      case "secret":
        return this.prove(ask.secret);
      case "watch":
        return this.watch(port, ask.journals);
      case "held":
        return this.leaveWith(port, ask.lock);
      case "again":
        return this.tellAll(port, ask.journal);
      case "retry":
        if (ask.evenIfLive || this.world.connection !== "live") this.stream.retry();
        return;
      case "bye":
        return this.leave(port);
    }
  }

  /** A worker cannot read the page's storage; a tab that has come in anew tells it. */
  private prove(secret: string): void {
    if (secret === this.stream.secret) return;
    this.stream.secret = secret;
    if (this.watched) this.stream.retry();
  }

  private watch(port: Port, journals: string[]): void {
    const had = this.ports.get(port) ?? [];
    this.ports.set(port, journals);
    for (const journal of journals) if (!had.includes(journal)) this.tellAll(port, journal);
    clearTimeout(this.gathering);
    this.gathering = setTimeout(() => this.open(), GATHER_MS);
  }

  private wanted(): string[] {
    return [...new Set([...this.ports.values()].flat())].slice(-WATCHED_MAX).sort();
  }

  private open(): void {
    const wanted = this.wanted();
    const named = JSON.stringify(wanted);
    const known = JSON.parse(this.watched || "[]") as string[];
    // What nobody looks at any more costs little; a new stream for its sake would tell the rest again.
    if (this.watched && wanted.every((journal) => known.includes(journal)) && known.length < WATCHED_MAX / 2) return;
    this.watched = named;
    const { sheets, texts } = this.world;
    this.world = { ...this.world, sheets: only(sheets, wanted), texts: only(texts, wanted) };
    this.stream.watch(wanted);
  }

  private heard(news: News, raw?: string): void {
    const journal = "journal" in news ? news.journal : "";
    try {
      this.fold(news);
    } catch (error) {
      if (!(error instanceof Misfit)) throw error;
      return this.again(journal);
    }
    if (news.kind === "view") this.awaited.delete(journal);
    const posted: Posted = raw === undefined ? news : { kind: "whole", text: raw };
    for (const [port, journals] of this.ports) if (!journal || journals.includes(journal)) port.postMessage(posted);
  }

  /** Rows are handed on and not kept: a tab asks for the list itself, and there is no end of runs. */
  private fold(news: News): void {
    const { rows, gone } = this.world;
    this.world = { ...hear(this.world, news, this.now()), rows, gone };
  }

  /** Views come whole with a new stream. The old one tells until then, also of what nobody watches any more. */
  private again(journal: string): void {
    if (this.awaited.has(journal) || !this.wanted().includes(journal)) return;
    this.awaited.add(journal);
    this.stream.retry();
  }

  private tellAll(port: Port, journal: string): void {
    const view = this.world.sheets[journal];
    if (!view) return;
    port.postMessage({ kind: "whole", text: JSON.stringify({ journal, at: this.serverTime(), view }) });
    port.postMessage({ kind: "texts", journal, texts: { ...this.world.texts[journal] } });
  }

  /** What it is there now, not when the last news came: a tab sets its clock by what it is told first. */
  private serverTime(): number {
    return this.now() / 1000 + this.world.offset;
  }

  private leave(port: Port): void {
    this.ports.delete(port);
  }

  /** A tab that is closed or crashes says nothing; the lock that it holds tells. */
  private leaveWith(port: Port, lock: string): void {
    void navigator.locks.request(lock, () => this.leave(port));
  }
}
