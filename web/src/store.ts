/** The page's one store: what the server told, and what this tab does about it. */
import { useSyncExternalStore } from "react";
import { Misfit } from "./model/patch";
import type { Press, Presses } from "./model/presses";
import { routeOf, type Route } from "./model/route";
import { ROWS_MAX, tidied } from "./model/rows";
import type { Me, RunSheet, ThreadSheet } from "./model/types";
import { hear, newer, NOTHING_KNOWN, only, type News, type World } from "./model/world";
import { base } from "./net/api";

export type Layer = "none" | "redirect" | "raise" | "hand back" | "fork" | "confirm";
export type Tab = "steps" | "thread";

export interface App {
  readonly world: World;
  readonly me: Me | null;
  readonly entry: "coming in" | "in" | "shut out" | "unreachable";
  readonly route: Route;
  readonly run: string; // the run that is shown
  readonly missing: string; // why it cannot be
  readonly presses: Presses; // wait for the line
  readonly asks: readonly Press[]; // waited too long, and ask again
  readonly cut: boolean; // this tab cannot reach the server, whatever the stream that it shares says
  readonly busy: Readonly<Record<string, true>>;
  readonly notice: string; // a refusal, in the server's words
  readonly layer: Layer;
  readonly tab: Tab;
  readonly view: "steps" | "timeline";
  readonly result: string; // the run whose result is open
  readonly follow: string | null; // the run that was in front when this tab asked for another one
  readonly older: { next: string; loading: boolean; loaded: boolean; most: number }; // most: of the ended, that are kept
  readonly search: { words: string; found: readonly string[] | null };
}

const path = (): string => `/${location.pathname.slice(new URL(base()).pathname.length)}`;

let app: App = {
  world: NOTHING_KNOWN, me: null, entry: "coming in",
  route: typeof location === "undefined" ? { page: "home" } : routeOf(path()),
  run: "", missing: "", presses: [], asks: [], cut: false, busy: {}, notice: "", layer: "none", tab: "steps", view: "steps", result: "", follow: null,
  older: { next: "", loading: false, loaded: false, most: ROWS_MAX }, search: { words: "", found: null },
};

const listeners = new Set<() => void>();
let shown = app; // as of the last telling
let told = true;

export const state = (): App => app;

export function set(change: Partial<App>): void {
  app = { ...app, ...change };
  tellSoon();
}

/** News may come hundreds of times a second; the page is drawn once a frame. */
function tellSoon(): void {
  if (!told) return;
  told = false;
  if (document.hidden) queueMicrotask(tell);
  else requestAnimationFrame(tell);
}

function tell(): void {
  told = true;
  shown = app;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const onChange = subscribe;

/**
 * The part of the state that a component shows; it must be the same object as long as it is the same.
 *
 * Of the state as it was told last, not as it is: a component that is drawn in between for a reason of its own, such as
 * the clock, would know of a change before those around it, and find what it shows gone.
 */
export function useApp<T>(part: (app: App) => T): T {
  return useSyncExternalStore(subscribe, () => part(shown));
}

/** Folds the news in; false if it does not fit what is known, and the whole must be told again. */
export function heard(news: News): boolean {
  try {
    set({ world: hear(app.world, news, Date.now()) });
    if (news.kind === "row") tidyRows();
    return true;
  } catch (error) {
    if (error instanceof Misfit) return false;
    throw error;
  }
}

/** What is not watched is not known any more: it would be shown as it was. */
export function forgetOthers(journals: readonly string[]): void {
  const { sheets, texts } = app.world;
  set({ world: { ...app.world, sheets: only(sheets, journals), texts: only(texts, journals) } });
}

export function addRows(rows: World["rows"][string][]): void {
  set({ world: { ...app.world, rows: newer(app.world.rows, rows) } });
  tidyRows();
}

function tidyRows(): void {
  const { world, older, search } = app;
  const left = tidied(world.rows, older.most, search.found ?? []);
  if (left) set({ world: { ...world, rows: left.rows }, older: { ...older, next: left.next ?? older.next } });
}

export const runSheet = (of: App): RunSheet | undefined => of.world.sheets[of.run] as RunSheet | undefined;

export function threadSheet(of: App): ThreadSheet | undefined {
  const thread = runSheet(of)?.thread;
  return thread ? (of.world.sheets[thread] as ThreadSheet | undefined) : undefined;
}

/** The line as the bar shows it. */
export const connection = (of: App): World["connection"] => (of.cut && of.world.connection === "live" ? "lost" : of.world.connection);

export const useRun = (): RunSheet | undefined => useApp(runSheet);
export const useThread = (): ThreadSheet | undefined => useApp(threadSheet);

/** Server time, in seconds, of this very moment. */
export const serverNow = (): number => Date.now() / 1000 + app.world.offset;

export function go(to: string): void {
  history.pushState(null, "", new URL(to, base()));
  arrive();
  setTimeout(() => {
    if (!document.activeElement?.closest("main")) document.querySelector<HTMLElement>("main h1")?.focus();
  }, HEADING_MS);
}

const HEADING_MS = 120; // who listens hears where they are once it is there

export function arrive(): void {
  set({ route: routeOf(path()), notice: "", layer: "none", tab: "steps", view: "steps", missing: "" });
}

/** This tab has asked for something else to be done now: it goes along when that comes to the front. */
export function followFront(front = threadSheet(app)?.front ?? ""): void {
  set({ follow: front });
}
