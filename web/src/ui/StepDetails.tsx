/** A step on demand: its whole result or error, what it cost, and what can be done about it alone. */
import { useEffect, useState } from "react";
import { attempt, expecting, fork, press } from "../actions";
import { draft, keepDraft } from "../model/drafts";
import { ENDED, type RunSheet, type StepSheet } from "../model/types";
import { clock, count, hour, money, straight } from "../model/words";
import { api } from "../net/api";
import { isObject } from "../model/schema";
import { useRun } from "../store";
import { leavesOnEscape } from "./keys";
import { useOpener } from "./opener";
import { Steer } from "./Steer";

export default function StepDetails({ run: given, step, number }: { run: RunSheet; step: StepSheet; number: number }) {
  const run = useRun() ?? given; // as it is now: a press tells on what it was decided
  return (
    <div className="step-details">
      {step.status === "undo_failed" && (
        <p>
          This was done and could not be undone. Undo it by hand where it was done, then mark it as handled in the receipt, which
          only this browser notes; or try the undo again from there.
        </p>
      )}
      <Facts step={step} />
      {step.error && <Part title="Error" text={step.error} />}
      <Result run={run} step={step} />
      {step.can_be_stopped && <StopIt run={run} step={step} />}
      {ENDED.has(run.phase) && step.position > 1 && <ForkHere run={run} step={step} number={number} />}
    </div>
  );
}

function Facts({ step }: { step: StepSheet }) {
  const facts: [string, string][] = [
    ["Tool", step.tool],
    ["Started", step.started_at === null ? "" : hour(step.started_at)],
    ["Took", step.seconds === null ? "" : step.seconds < 1 ? "under a second" : clock(step.seconds)],
    ["Spent", [step.usd ? money(step.usd) : "", step.tokens ? count(step.tokens, "token") : ""].filter(Boolean).join(", ")],
    ["Try", step.attempt > 1 ? `${step.attempt}${step.tries ? ` of ${step.tries}` : ""}` : ""],
    ["Effect", step.irreversible ? "cannot be undone" : step.effect === "write" || step.effect === "once" ? "changes something" : ""],
  ];
  const known = facts.filter(([, value]) => value);
  if (known.length === 0) return null;
  return (
    <dl className="facts">
      {known.map(([name, value]) => (
        <div key={name} className="fact">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Part({ title, text }: { title: string; text: string }) {
  return (
    <div>
      <p className="label">{title}</p>
      <pre className="raw" tabIndex={0} aria-label={title}>{straight(text)}</pre>
    </div>
  );
}

function Result({ run, step }: { run: RunSheet; step: StepSheet }) {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    if (!step.result_at) return;
    let here = true;
    void attempt(() => api.records(run.run, step.result_at - 1, 1), (words) => here && setText(words)).then((page) => {
      if (here && page) setText(shown(page.records[0]?.event));
    });
    return () => {
      here = false;
    };
  }, [run.run, step.result_at]);
  if (!step.result_at || step.error) return null;
  return text ? <Part title="Result" text={text} /> : null;
}

function shown(event: unknown): string {
  if (!isObject(event)) return "";
  const result = event["result"] ?? event["value"];
  if (typeof result === "string") return result;
  if (result === null || result === undefined) return "(nothing)";
  return JSON.stringify(result, null, 2);
}

function StopIt({ run, step }: { run: RunSheet; step: StepSheet }) {
  const offer = run.preview["stop effect"];
  if (!offer?.enabled) return <p className="quiet">It can be stopped alone once the run is pausing for it.</p>;
  return (
    <div className="buttons">
      <Steer className="button danger" onClick={() => void press(run, "stop_effect", { attempt: step.position, ...expecting(run) }, "Stop it")}>
        Stop it
        <small>{offer.consequence}</small>
      </Steer>
    </div>
  );
}

function ForkHere({ run, step, number }: { run: RunSheet; step: StepSheet; number: number }) {
  const place = `fork:${run.run}:${step.position}`;
  const [brief, setBrief] = useState(() => draft(place) || run.brief);
  const [open, setOpen] = useState<"" | "kept" | "asked for">(() => (draft(place) ? "kept" : ""));
  const opener = useOpener(open !== "", "steps");
  const close = () => setOpen("");
  const write = (words: string) => {
    setBrief(words);
    keepDraft(place, words === run.brief ? "" : words);
  };
  if (!open)
    return (
      <div className="buttons">
        <Steer className="button" ref={opener} onClick={() => setOpen("asked for")}>
          Fork from here
          <small>A new run from step {number}; this one stays as it is</small>
        </Steer>
      </div>
    );
  return (
    <form className="step-fork" onKeyDown={leavesOnEscape(close)} onSubmit={(event) => { event.preventDefault(); void fork(run, step.position, brief === run.brief ? "" : brief, { place, text: brief }); }}>
      <div className="field">
        <label htmlFor={`fork-${step.id}`}>Brief of the new run</label>
        <textarea id={`fork-${step.id}`} className="input" rows={2} autoFocus={open === "asked for"} value={brief} onChange={(event) => write(event.target.value)} />
      </div>
      <div className="buttons">
        <button type="button" className="button" onClick={close}>
          Keep as is
        </button>
        <button type="submit" className="button filled">
          Fork from step {number}
        </button>
      </div>
    </form>
  );
}
