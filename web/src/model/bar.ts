/** What the bar says and offers: the state's words, and three slots whose order never changes. */
import type { Connection } from "./world";
import { figure } from "./meters";
import { PHASES, UNDRIVEN, type Sign } from "./phases";
import { willWait } from "./presses";
import { ENDED, type Asked, type Offer, type Phase, type RunSheet, type ThreadSheet } from "./types";
import { capital, count, hour, isCurrent, money, oneLine, timeLeft } from "./words";

export type Glyph = Sign | "play" | "redirect" | "plus" | "undo" | "open" | "raise" | "hand" | "lost";

export type Act =
  | { do: "verb"; verb: string; body?: Record<string, unknown> }
  | { do: "layer"; layer: "redirect" | "raise" | "hand back" | "fork" }
  | { do: "review" } | { do: "bring back"; todo: number } | { do: "fork"; at: number }
  | { do: "new run"; agent?: string } | { do: "result" } | { do: "close" };

export interface Slot {
  act: Act;
  glyph: Glyph;
  label: string;
  consequence: string;
  enabled: boolean;
  filled?: boolean;
  danger?: boolean;
  confirm?: string;
  keys?: string;
}

export interface Bar { tone: "calm" | "run" | "warn" | "bad"; glyph: Glyph; word: string; detail: string; slots: Slot[] }

export interface Seen { connection: Connection; now: number; thread?: ThreadSheet | undefined; operator: boolean }

export const STOP_NOW_AFTER_S = 5;

const NO_OFFER: Offer = { verb: "", label: "", enabled: false, consequence: "Not now", confirm: "" };
const offer = (run: RunSheet, verb: string): Offer => run.preview[verb] ?? NO_OFFER;
const held = (run: RunSheet, cause: RunSheet["holds"][number]): boolean => run.holds.includes(cause);

export function barOf(run: RunSheet, seen: Seen): Bar {
  if (ENDED.has(run.phase)) return ended(run, seen);
  const bar = { ...status(run), slots: [first(run, seen), redirect(run), last(run, seen)] };
  return seen.connection === "live" || seen.connection === "connecting" ? bar : away(bar, run);
}

// ── the state in words ───────────────────────────────────────────────────────────────────────

type Status = Omit<Bar, "slots">;

const signed = (phase: Phase): Pick<Bar, "glyph" | "word"> => ({ glyph: PHASES[phase].sign, word: PHASES[phase].word });

function status(run: RunSheet): Status {
  if (run.undriven_since !== null) return undriven(run);
  const looks = signed(run.phase);
  switch (run.phase) {
    case "queued":
      return { ...looks, tone: "run", detail: "" };
    case "pausing":
      return { ...looks, tone: "warn", detail: finishing(run) };
    case "paused":
      return paused(run);
    case "waiting":
      return { ...looks, tone: "warn", detail: asked(run)?.message ?? "" };
    case "cancelling":
      return { ...looks, tone: "bad", detail: undoing(run) };
    default:
      return { ...looks, tone: "run", detail: doing(run) };
  }
}

function undriven(run: RunSheet): Status {
  const was = PHASES[run.phase].word.toLowerCase();
  return { glyph: UNDRIVEN.sign, word: UNDRIVEN.word, tone: "bad", detail: `It was ${was}; it goes on when a process with agent ${run.agent} runs` };
}

export const asked = (run: RunSheet): Asked | undefined => run.questions.find((question) => question.kind !== "cap");

function doing(run: RunSheet): string {
  const names = run.steps.filter(isCurrent).map((step) => oneLine(step.name));
  const questions = run.questions.length;
  const waits = questions ? `, ${count(questions, "question")} for you` : "";
  return ([...new Set(names)].join(" and ") || (run.in_flight[0]?.name ?? "")) + waits;
}

function finishing(run: RunSheet): string {
  const names = run.in_flight.map((each) => each.noun || each.name);
  return names.length ? `finishing ${[...new Set(names)].join(" and ")}` : "";
}

function paused(run: RunSheet): Status {
  const warn = { ...signed("paused"), tone: "warn" } as const;
  if (held(run, "user")) return { ...warn, detail: atRest(run) };
  if (held(run, "cap")) return { ...warn, word: "Paused at the cap", detail: atCap(run) };
  if (held(run, "stale") && asked(run))
    return { ...warn, ...signed("waiting"), detail: asked(run)?.message ?? "" };
  if (held(run, "human")) {
    const word = run.human ? `${run.human} has it` : "Handed to a person";
    return { ...warn, glyph: "hand", word, detail: asked(run)?.message ?? "It goes on when it is handed back" };
  }
  if (held(run, "parked")) return { ...warn, word: "Parked", detail: parkedFor(run) };
  if (held(run, "drain")) return { ...warn, detail: "Goes on when its server is back" };
  return { ...warn, detail: atRest(run) };
}

function atRest(run: RunSheet): string {
  const alive = run.background.filter((each) => each.ended_at === null && each.phase !== "paused").length;
  if (alive) return `${count(alive, "background task")} still ${alive === 1 ? "runs" : "run"}`;
  return "Nothing is running or spending";
}

export const capReached = (run: RunSheet): string =>
  run.questions.find((question) => question.kind === "cap")?.cap ?? "usd";

/** What counts towards the cap: of steps, for one, not all that were done. One that counts nothing has its own words. */
export function atCap(run: RunSheet): string {
  const reached = capReached(run);
  if (reached === "usd") return `${money(run.spent.usd)} spent`;
  const meter = run.meters.find(({ name }) => name === reached);
  if (meter) return `${figure(meter.name, meter.used, meter.cap)} used`;
  return capital(run.questions.find((question) => question.kind === "cap")?.why ?? "");
}

function parkedFor(run: RunSheet): string {
  return run.parked_for || "Something else is in front";
}

function undoing(run: RunSheet): string {
  const words = run.receipt.lines.map((line) => line.word);
  const done = words.filter((word) => word === "undone").length;
  const left = words.filter((word) => word === "to be undone" || word === "being undone").length;
  return left ? `Undoing ${done + 1} of ${done + left}, saving to thread` : "Saving to thread";
}

// ── the slots while it lives ─────────────────────────────────────────────────────────────────

function slot(run: RunSheet, verb: string, glyph: Glyph, act: Act, more: Partial<Slot> = {}): Slot {
  const { label, consequence, enabled } = offer(run, verb);
  return { act, glyph, label, consequence, enabled, ...more };
}

function first(run: RunSheet, seen: Seen): Slot {
  if (run.phase === "cancelling") return slot(run, "pause", "pause", { do: "verb", verb: "pause" });
  if (run.phase === "pausing" || held(run, "user"))
    return slot(run, "resume", "play", { do: "verb", verb: "resume" }, { filled: run.phase === "paused", keys: "Esc" });
  if (held(run, "cap")) return slot(run, "raise limits", "raise", { do: "layer", layer: "raise" }, { filled: true });
  if (held(run, "human")) return slot(run, "hand back", "hand", { do: "layer", layer: "hand back" }, { filled: true });
  if (held(run, "parked")) return bringBack(run, seen.thread);
  if ((run.phase === "waiting" || held(run, "stale")) && asked(run)) return review(run, seen.now);
  if (run.phase === "paused") return slot(run, "resume", "play", { do: "verb", verb: "resume" }, { keys: "Esc" });
  return slot(run, "pause", "pause", { do: "verb", verb: "pause" }, { keys: "Esc" });
}

function review(run: RunSheet, now: number): Slot {
  const times = run.questions.flatMap((question) => (question.expires_at === null ? [] : [question.expires_at]));
  const left = times.length ? `, ${timeLeft(Math.min(...times) - now)}` : "";
  const many = run.questions.length === 1 ? "One decision" : `${run.questions.length} decisions`;
  return slot(run, "answer", "ask", { do: "review" }, { filled: true, label: "Review", consequence: many + left });
}

function bringBack(run: RunSheet, thread: ThreadSheet | undefined): Slot {
  const todo = thread?.todos.find((each) => each.kind === "parked" && each.run === run.run);
  if (!todo) return slot(run, "resume", "play", { do: "verb", verb: "resume" });
  return {
    act: { do: "bring back", todo: todo.todo }, glyph: "play", label: "Bring back",
    consequence: todo.now, enabled: true, filled: true,
  };
}

function redirect(run: RunSheet): Slot {
  return slot(run, "redirect", "redirect", { do: "layer", layer: "redirect" }, { keys: "Ctrl E" });
}

function last(run: RunSheet, seen: Seen): Slot {
  const { confirm } = offer(run, "cancel");
  const now = run.phase === "cancelling";
  const made = slot(run, "cancel", now ? "stop" : "cancel", { do: "verb", verb: "cancel", body: now ? { now: true } : {} }, {
    danger: true, keys: "Ctrl .", ...(confirm ? { confirm } : {}),
  });
  if (!now || !made.enabled) return made;
  const since = run.marks.findLast((mark) => mark.kind === "cancel" || mark.kind === "cancelling")?.at ?? run.updated_at;
  const wait = Math.min(STOP_NOW_AFTER_S, Math.ceil(since + STOP_NOW_AFTER_S - seen.now));
  return wait > 0 ? { ...made, enabled: false, consequence: `Undoing first, offered in ${wait} s` } : made;
}

/** How it stood when the line was lost, which is all that is known. */
function lastSeen(run: RunSheet): string {
  switch (run.phase) {
    case "paused":
      return run.holds.every((cause) => cause === "stale") && asked(run) ? "It waits for you" : "It was paused when the line was lost";
    case "waiting":
      return "It waits for you";
    case "cancelling":
      return "It was cancelling when the line was lost";
    case "pausing":
      return "It was pausing when the line was lost";
    case "queued":
      return "It had not begun when the line was lost";
    default:
      return "The agent keeps running";
  }
}

/** The agent goes on without us: what is pressed waits for the line, and what is only looked at does not. */
function away(bar: Bar, run: RunSheet): Bar {
  const [one, two, three] = bar.slots as [Slot, Slot, Slot];
  return {
    tone: "calm", glyph: "lost", word: "Reconnecting", detail: lastSeen(run),
    slots: [
      firstAway(one),
      { ...two, consequence: two.enabled ? willWait("redirect") : two.consequence },
      { ...three, consequence: three.enabled ? willWait("cancel") : three.consequence },
    ],
  };
}

function firstAway(one: Slot): Slot {
  if (!one.enabled || one.act.do === "review") return { ...one, filled: false };
  if (one.act.do === "verb") return { ...one, filled: false, consequence: willWait(one.act.verb) };
  return { ...one, filled: false, consequence: "When back online", enabled: false };
}

// ── after the end ────────────────────────────────────────────────────────────────────────────

function ended(run: RunSheet, seen: Seen): Bar {
  const another: Slot = { act: { do: "new run" }, glyph: "plus", label: "New run", consequence: "Leaves this one as it is", enabled: true };
  const undo = offer(run, "undo");
  const undos = undo.enabled ? [slot(run, "undo", "undo", { do: "verb", verb: "undo" }, { danger: true })] : [];
  switch (run.phase) {
    case "done": {
      const start: Slot = { ...another, act: { do: "new run", agent: run.agent }, label: "Start another", consequence: "The same agent, a new task" };
      const open: Slot = { act: { do: "result" }, glyph: "open", label: "Open result", consequence: "The whole of it", enabled: true };
      return { ...signed("done"), tone: "calm", detail: oneLine(run.result), slots: [start, open, ...undos] };
    }
    case "cancelled":
      return {
        ...signed("cancelled"), tone: "calm", detail: run.receipt.saved.length ? "Work saved to thread" : "What was done is below",
        slots: [...again(run, "Start again"), another, ...undos],
      };
    case "failed": {
      const number = run.fork_from?.number;
      const rewrite: Slot = {
        act: { do: "layer", layer: "fork" }, glyph: "redirect", label: "Redirect",
        consequence: number ? `Rewrites step ${number}` : "Starts with a new brief", enabled: true, keys: "Ctrl E",
      };
      const close: Slot = { act: { do: "close" }, glyph: "cancel", label: "Close", consequence: run.receipt.saved.length ? "Work so far is in the thread" : "Leaves this one as it is", enabled: true };
      return {
        ...signed("failed"), tone: "bad", ...(number ? { word: `Failed at step ${number}` } : {}), detail: oneLine(run.cause),
        slots: [...again(run, "Try again"), rewrite, close],
      };
    }
    default: {
      const by = [run.ended_at ? hour(run.ended_at) : "", run.ended_by].filter(Boolean).join(", ");
      const recover = offer(run, "recover");
      const back = recover.enabled && seen.operator ? [slot(run, "recover", "undo", { do: "verb", verb: "recover" })] : [];
      return { ...signed("killed"), tone: "bad", detail: by, slots: [another, ...back, ...undos] };
    }
  }
}

function again({ fork_from: from }: RunSheet, label: string): Slot[] {
  if (!from) return [];
  return [{
    act: { do: "fork", at: from.position }, glyph: "undo", label,
    consequence: `A fork from step ${from.number}, context kept`, enabled: true,
  }];
}
