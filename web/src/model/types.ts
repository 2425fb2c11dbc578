/** What the server tells, under the names that the page uses. The shapes are generated from the server's structs. */
import type { RunSheet, StepSheet, ThreadSheet } from "../generated/types";

export type {
  Accepted, Asked, Background, Change, InFlight, Limits, Line, Mark, Me, Offer, Phase, Receipt, ReceiptLine, Row,
  RunSheet, Spent, StepSheet, StepStatus, Switch, ThreadSheet, TodoOffer,
} from "../generated/types";

export interface Problem { error: string; message: string; changed: boolean | null; state?: unknown }

export type Sheet = RunSheet | ThreadSheet;
export type StepState = StepSheet["status"];

export const ENDED: ReadonlySet<string> = new Set(["done", "failed", "cancelled", "killed"]);
