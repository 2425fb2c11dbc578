/** The ten states of a run as they look: no sign and no word stands for two of them, so that none needs its colour. */
import type { Background, Phase, Row } from "./types";

export type Sign = "queued" | "run" | "pausing" | "pause" | "ask" | "cancelling" | "done" | "cancelled" | "cancel" | "stop" | "undriven";

export interface Looks { sign: Sign; tone: "calm" | "run" | "warn" | "bad" | "ok"; word: string }

export const PHASES: Record<Phase, Looks> = {
  queued: { sign: "queued", tone: "calm", word: "Queued" },
  running: { sign: "run", tone: "run", word: "Running" },
  pausing: { sign: "pausing", tone: "warn", word: "Pausing" },
  paused: { sign: "pause", tone: "warn", word: "Paused" },
  waiting: { sign: "ask", tone: "warn", word: "Waiting for you" },
  cancelling: { sign: "cancelling", tone: "bad", word: "Cancelling" },
  done: { sign: "done", tone: "ok", word: "Done" },
  cancelled: { sign: "cancelled", tone: "calm", word: "Cancelled" },
  failed: { sign: "cancel", tone: "bad", word: "Failed" },
  killed: { sign: "stop", tone: "bad", word: "Stopped by an operator" },
};

/** A run that needs a driver and has none that lives, whatever its phase is. */
export const UNDRIVEN: Looks = { sign: "undriven", tone: "bad", word: "Nobody drives this" };

/** How a run looks in the list. */
export const looksOfRow = (row: Row): Looks => (row.undriven ? UNDRIVEN : looksOf(row.phase));

/** A run that ended long ago and was purged: nobody can say any more how. */
const DELETED: Looks = { sign: "cancelled", tone: "calm", word: "Deleted" };

/** How a run in the background looks. */
export const looksOfChild = (child: Background): Looks => (child.phase === "purged" ? DELETED : looksOf(child.phase));

/** A phase of which this page has not heard, from a newer server, looks like one that has not begun. */
export const looksOf = (phase: string): Looks => PHASES[phase as Phase] ?? PHASES.queued;
