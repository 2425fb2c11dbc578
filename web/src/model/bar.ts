/** The bar as it is drawn: its words come from the server, and get a sign, an act and a key here. */
import { NOT_YET, RECONNECTING_WORD } from "../generated/types";
import { LOOKS, type Looks, type Sign } from "./phases";
import { willWait } from "./presses";
import { ENDED, type Asked, type Offered, type RunSheet, type ThreadSheet } from "./types";
import { hour, oneLine, timeLeft } from "./words";
import type { Connection } from "./world";

export type Glyph = Sign | "play" | "redirect" | "plus" | "undo" | "open" | "raise" | "hand" | "lost";

export type Act =
  | { do: "verb"; verb: string; body?: Record<string, unknown> }
  | { do: "layer"; layer: "redirect" | "raise" | "hand back" | "fork" }
  | { do: "review" } | { do: "bring back"; todo: number } | { do: "fork"; at: number }
  | { do: "new run"; agent?: string } | { do: "result" } | { do: "close" };

interface Drawn { act: Act; glyph: Glyph; keys?: string; danger?: boolean }
export interface Slot extends Offered, Drawn { filled?: boolean }
export interface Bar { tone: Exclude<Looks["tone"], "ok">; glyph: Glyph; word: string; detail: string; slots: Slot[] }
export interface Seen { connection: Connection; now: number; thread?: ThreadSheet | undefined; operator: boolean }

const STOP_NOW_AFTER_S = 5; // the longest that a slot says it opens later: clocks may differ

export function barOf(run: RunSheet, seen: Seen): Bar {
  const ended = ENDED.has(run.phase);
  const slots = run.bar.slots.map((slot, at) => drawn(run, timed(slot, seen.now), at));
  const looks = LOOKS[run.bar.looks] ?? LOOKS["queued"]!;
  const bar: Bar = {
    tone: run.phase === "queued" ? "run" : looks.tone === "ok" ? "calm" : looks.tone,
    glyph: looks.sign, word: run.bar.word, detail: oneLine(run.bar.detail), slots,
  };
  if (ended) return { ...bar, detail: since(run, bar.detail), slots: slots.filter((slot) => slot.enabled && (slot.role !== "operator" || seen.operator)) };
  const back = bringBack(run, seen.thread);
  if (back) slots[0] = { ...slots[0]!, ...back };
  return seen.connection === "live" || seen.connection === "connecting" ? bar : away(bar, run);
}

/** A kill is told with its time, in the zone of who looks. */
const since = (run: RunSheet, detail: string): string =>
  run.phase === "killed" && run.ended_at !== null ? [hour(run.ended_at), detail].filter(Boolean).join(", ") : detail;

/** A slot as it stands at this moment: still closed, or with the time that is left. */
function timed(slot: Offered, now: number): Offered {
  const wait = slot.opens_at === null ? 0 : Math.min(STOP_NOW_AFTER_S, Math.ceil(slot.opens_at - now));
  if (wait > 0) return { ...slot, enabled: false, consequence: NOT_YET.replace("{}", String(wait)) };
  return slot.expires_at === null ? slot : { ...slot, consequence: `${slot.consequence}, ${timeLeft(slot.expires_at - now)}` };
}

/** A press that needs nothing but its slot. */
const ofVerb = (verb: string, glyph: Glyph, more: Partial<Drawn> = {}): Drawn => ({ act: { do: "verb", verb }, glyph, ...more });
const opens = (layer: (Act & { do: "layer" })["layer"], glyph: Glyph, more: Partial<Drawn> = {}): Drawn => ({ act: { do: "layer", layer }, glyph, ...more });

const DRAWN: Record<string, (run: RunSheet) => Drawn> = {
  pause: (run) => ofVerb("pause", "pause", run.phase === "cancelling" ? {} : { keys: "Esc" }),
  resume: () => ofVerb("resume", "play", { keys: "Esc" }),
  answer: () => ({ act: { do: "review" }, glyph: "ask" }),
  "raise limits": () => opens("raise", "raise"),
  "hand back": () => opens("hand back", "hand"),
  redirect: () => opens("redirect", "redirect", { keys: "Ctrl E" }),
  cancel: (run) => (run.phase === "cancelling"
    ? { act: { do: "verb", verb: "cancel", body: { now: true } }, glyph: "stop", danger: true, keys: "Ctrl ." }
    : ofVerb("cancel", "cancel", { danger: true, keys: "Ctrl ." })),
  undo: () => ofVerb("undo", "undo", { danger: true }),
  start: (run) => ({ act: run.phase === "done" ? { do: "new run", agent: run.agent } : { do: "new run" }, glyph: "plus" }),
  fork: (run) => ({ act: { do: "fork", at: run.fork_from?.position ?? 1 }, glyph: "undo" }),
  rewrite: () => opens("fork", "redirect", { keys: "Ctrl E" }),
  result: () => ({ act: { do: "result" }, glyph: "open" }),
  close: () => ({ act: { do: "close" }, glyph: "cancel" }),
};

const RESTS: ReadonlySet<string> = new Set(["paused", "waiting"]);

/** What lets a run go on that rests is the one filled button, as is a question that is asked beside other work. */
function drawn(run: RunSheet, slot: Offered, at: number): Slot {
  const looks = DRAWN[slot.verb]?.(run) ?? ofVerb(slot.verb, "undo");
  const filled = at === 0 && slot.enabled && (slot.verb === "answer" || RESTS.has(run.phase)) && slot.verb !== "pause";
  return { ...slot, ...looks, filled };
}

/** A parked run comes back through its to-do, of which only the thread knows. */
function bringBack(run: RunSheet, thread: ThreadSheet | undefined): Partial<Slot> | null {
  const todo = run.bar.slots[0]?.verb === "resume" && run.holds.includes("parked") && !run.holds.includes("user")
    ? thread?.todos.find((each) => each.kind === "parked" && each.run === run.run) : undefined;
  if (!todo) return null;
  return { act: { do: "bring back", todo: todo.todo }, glyph: "play", label: "Bring back", consequence: todo.now, enabled: true, filled: true };
}

/** The agent goes on without us: what is pressed waits for the line, and what is only looked at does not. */
function away(bar: Bar, run: RunSheet): Bar {
  return { tone: "calm", glyph: "lost", word: RECONNECTING_WORD, detail: run.bar.away, slots: bar.slots.map(slotAway) };
}

function slotAway(slot: Slot): Slot {
  if (!slot.enabled || slot.act.do === "review") return { ...slot, filled: false };
  if (slot.act.do === "verb" || slot.verb === "redirect") return { ...slot, filled: false, consequence: willWait(slot.verb) };
  return { ...slot, filled: false, consequence: "When back online", enabled: false };
}

/** The question that the bar, the thread and a screen reader tell of; a cap has the bar's own words. */
export const asked = (run: RunSheet): Asked | undefined => run.questions.find((question) => question.kind !== "cap");

export const capReached = (run: RunSheet): string => run.questions.find((question) => question.kind === "cap")?.cap ?? "usd";
