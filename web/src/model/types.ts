/** What the server tells, under the names that the page uses. The shapes are generated from the server's structs. */
import type { Phase, RunSheet, StepSheet, ThreadSheet } from "../generated/types";

export type {
  Ack, Asked, Background, Change, InFlight, Limits, Line, Mark, Me, Meter, Offer, Phase, Receipt, ReceiptLine, Row,
  RunSheet, Spent, StepSheet, StepStatus, Switch, ThreadSheet, TodoOffer, Way,
} from "../generated/types";
export type { Slot as Offered } from "../generated/types";

export interface Problem { error: string; message: string; changed: boolean | null; state?: unknown }

export type Sheet = RunSheet | ThreadSheet;
export type StepState = StepSheet["status"];

const LIVES: Record<Phase, boolean> = {
  queued: true, running: true, pausing: true, paused: true, waiting: true, cancelling: true,
  done: false, failed: false, cancelled: false, killed: false,
};
const phases = Object.entries(LIVES);

export const LIVING: readonly string[] = phases.flatMap(([phase, lives]) => (lives ? [phase] : []));
export const ENDED: ReadonlySet<string> = new Set(phases.flatMap(([phase, lives]) => (lives ? [] : [phase])));
