/** The ten states of a run as they look: no sign and no word stands for two of them, so that none needs its colour. */
import { DELETED_WORD, PHASE_WORDS, UNDRIVEN_WORD } from "../generated/types";
import type { Background, Phase, Row } from "./types";

export type Sign = "queued" | "run" | "pausing" | "pause" | "ask" | "cancelling" | "done" | "cancelled" | "cancel" | "stop" | "undriven" | "hand";

export interface Looks { sign: Sign; tone: "calm" | "run" | "warn" | "bad" | "ok"; word: string }

export const PHASES: Record<Phase, Looks> = {
  queued: { sign: "queued", tone: "calm", word: PHASE_WORDS.queued },
  running: { sign: "run", tone: "run", word: PHASE_WORDS.running },
  pausing: { sign: "pausing", tone: "warn", word: PHASE_WORDS.pausing },
  paused: { sign: "pause", tone: "warn", word: PHASE_WORDS.paused },
  waiting: { sign: "ask", tone: "warn", word: PHASE_WORDS.waiting },
  cancelling: { sign: "cancelling", tone: "bad", word: PHASE_WORDS.cancelling },
  done: { sign: "done", tone: "ok", word: PHASE_WORDS.done },
  cancelled: { sign: "cancelled", tone: "calm", word: PHASE_WORDS.cancelled },
  failed: { sign: "cancel", tone: "bad", word: PHASE_WORDS.failed },
  killed: { sign: "stop", tone: "bad", word: PHASE_WORDS.killed },
};

/** A run that needs a driver and has none that lives, whatever its phase is. */
export const UNDRIVEN: Looks = { sign: "undriven", tone: "bad", word: UNDRIVEN_WORD };

/** How a bar looks: as the phase of its run, or as one of the two that are none. */
export const LOOKS: Readonly<Record<string, Looks>> = { ...PHASES, undriven: UNDRIVEN, human: { sign: "hand", tone: "warn", word: "" } };

/** How a run looks in the list. */
export const looksOfRow = (row: Row): Looks => (row.undriven ? UNDRIVEN : looksOf(row.phase));

/** A run that ended long ago and was purged: nobody can say any more how. */
const DELETED: Looks = { sign: "cancelled", tone: "calm", word: DELETED_WORD };

/** How a run in the background looks. */
export const looksOfChild = (child: Background): Looks => (child.phase === "purged" ? DELETED : looksOf(child.phase));

/** A phase of which this page has not heard, from a newer server, looks like one that has not begun. */
export const looksOf = (phase: string): Looks => PHASES[phase as Phase] ?? PHASES.queued;
