/** Runs and threads as the server would tell them, with only what a test is about spelled out. */
import type { Asked, Line, Offer, Offered, Row, RunSheet, StepSheet, ThreadSheet, Way } from "../src/model/types";

export const offer = (verb: string, more: Partial<Offer> = {}): Offer => ({
  verb, label: verb.charAt(0).toUpperCase() + verb.slice(1), enabled: true, consequence: `${verb} it`, confirm: "", ...more,
});

export const step = (name: string, more: Partial<StepSheet> = {}): StepSheet => ({
  id: name, position: 5, name, status: "done", word: "Done", tool: "", noun: "", effect: "read", irreversible: false,
  started_at: null, ended_at: null, seconds: null, usd: 0, tokens: 0, attempt: 1, tries: 0, summary: "", error: "", question: 0,
  child: "", rewritten: false, can_be_stopped: false, result_at: 0, until: null, ...more,
});

export const queued = (name: string): StepSheet => step(name, { position: 0, status: "queued", word: "Queued" });

export const way = (label: string, more: Partial<Way> = {}): Way => ({ label, consequence: "", value: null, form: "", part: 0, asks: "", send: "", tone: "", ...more });

export const asks = (more: Partial<Asked> = {}): Asked => ({
  question: 7, kind: "question", message: "Who?", schema: null, about: 0, expires_at: null, answerers: [], facts: [], cap: "", why: "",
  verb: "answer", ways: [], skip: "", ...more,
});

/** A slot as the server offers it. */
export const slot = (verb: string, more: Partial<Offered> = {}): Offered => ({
  verb, label: verb.charAt(0).toUpperCase() + verb.slice(1), consequence: `${verb} it`, enabled: true, confirm: "", opens_at: null, expires_at: null, role: "controller", ...more,
});

const VERBS = ["pause", "resume", "redirect", "cancel", "answer", "raise limits", "hand back", "undo", "recover", "stop effect", "take over"];

export const run = (more: Partial<RunSheet> = {}): RunSheet => ({
  run: "r-1", head: 10, position: 9, thread: "t-1", agent: "demo", title: "Dinner", brief: "Find a table", profile: "", parent: "",
  fork_of: "", mode: "immediate", phase: "running", status: "", holds: [], human: "", created_at: 100, updated_at: 150, plan: [],
  limits: { usd: 2 }, spent: { steps: 2, tool_calls: 0, tokens: 0, usd: 0.42, unpriced: 0, seconds: 121 },
  meters: [], questions: [],
  in_flight: [], children: {}, notices: [], error: "", preview: Object.fromEntries(VERBS.map((verb) => [verb, offer(verb)])),
  receipt: { run: "r-1", phase: "running", lines: [], saved: [], inherited: [] }, moving_since: 140,
  steps: [step("Read"), step("Check", { status: "running" }), queued("Hold")], done: 1, changes: [], marks: [], spend: [], background: [],
  result: "", ended_at: null, ended_by: "", failed_step: "", fork_from: null, undriven_since: null, reads_messages: true,
  parked_for: "", undoing: "", cause: "",
  bar: { looks: "running", word: "Running", detail: "", slots: [], menu: [], away: "", reads: "" }, ...more,
});

export const line = (position: number, kind: string, more: Partial<Line> = {}): Line => ({
  position, at: position, kind, text: "", by: "", role: "", run: "", message: 0, choice: "", why: "", todo: 0, status: "", settled: 0, said: "", ...more,
});

export const thread = (more: Partial<ThreadSheet> = {}): ThreadSheet => ({
  thread: "t-1", head: 3, title: "", front: "r-1", hosted: true, created_at: 1, updated_at: 2, lines: [], todos: [], unread: [], runs: [], ...more,
});

export const row = (journal: string, head: number, more: Partial<Row> = {}): Row => ({
  journal, kind: "run", head, thread: "t-1", agent: "demo", parent: "", title: journal, phase: "running", driver: "", epoch: 0,
  wants_driver: false, open_questions: 0, due_at: null, created_at: 1, updated_at: 1, steps: 0, tokens: 0, usd: 0, undriven: false, ...more,
});
