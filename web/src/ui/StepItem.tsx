/** One step: icon, name, one line of what came of it, its time and its state in a word. */
import { lazy, memo, Suspense, useState, type CSSProperties } from "react";
import { useNow } from "../clock";
import type { RunSheet, StepSheet, StepState } from "../model/types";
import { sayingOf } from "../model/world";
import { clock, isCurrent, oneLine } from "../model/words";
import { useApp } from "../store";
import { Icon, type IconName } from "./Icon";
import { isAsked, QuestionCard } from "./QuestionCard";

const StepDetails = lazy(() => import("./StepDetails"));

const ICONS: Record<StepState, IconName> = {
  queued: "queued", running: "run", paused: "pause", waiting: "ask", done: "done", failed: "cancel", retrying: "run",
  cancelled: "cancelled", skipped: "skip", undoing: "run", undone: "undo", undo_failed: "cancel", kept: "done",
  lost: "undriven",
};

interface Window { ref: (element: HTMLElement | null) => void; top: number; of: number }
interface Props { step: StepSheet; number: number; run: RunSheet; last: boolean; window?: Window }

/** A step is drawn again when it has changed, or when the whole run's controls may have. */
export const StepItem = memo(
  Item,
  (a, b) =>
    a.step === b.step && a.number === b.number && a.last === b.last && a.window?.top === b.window?.top &&
    a.run.run === b.run.run && (a.step.question === 0 || a.run === b.run) && a.run.phase === b.run.phase,
);

function Item({ step, number, run, last, window }: Props) {
  const [open, setOpen] = useState(false);
  const question = step.question ? run.questions.find((each) => each.question === step.question && isAsked(each)) : undefined;
  const begun = step.position > 0;
  const style = window ? ({ "--top": `${window.top}px` } as CSSProperties) : undefined;
  return (
    <li
      className={`step ${step.status}${last ? " last" : ""}`}
      aria-current={isCurrent(step) ? "step" : undefined}
      aria-posinset={window ? number : undefined}
      aria-setsize={window?.of}
      data-index={number - 1}
      ref={window?.ref}
      style={style}
    >
      {begun ? (
        <button type="button" className="step-row" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Row step={step} number={number} />
        </button>
      ) : (
        <div className="step-row">
          <Row step={step} number={number} />
        </div>
      )}
      {isCurrent(step) && <Saying run={run.run} step={step} />}
      {question && <QuestionCard run={run} question={question} />}
      {open && (
        <Suspense>
          <StepDetails run={run} step={step} number={number} />
        </Suspense>
      )}
    </li>
  );
}

function Row({ step, number }: { step: StepSheet; number: number }) {
  return (
    <>
      <span className="step-icon">
        <Icon name={ICONS[step.status]} />
      </span>
      <span>
        <span className="step-name">
          <span className="hidden-words">Step {number}: </span>
          <bdi>{oneLine(step.name)}</bdi>
        </span>
        <Note step={step} />
        {step.status === "undo_failed" && <span className="step-tag what-to-do">What to do</span>}
        {step.rewritten && <span className="step-tag">Rewritten by you</span>}
      </span>
      <span className="step-side">
        <Took step={step} />
        <span className="step-word">{step.word}</span>
      </span>
    </>
  );
}

function Note({ step }: { step: StepSheet }) {
  const text = oneLine(step.error || step.summary || (step.irreversible && step.status === "queued" ? "Cannot be undone" : ""));
  return text ? <span className="step-note">{text}</span> : null;
}

function Took({ step }: { step: StepSheet }) {
  if (step.seconds !== null && (step.ended_at !== null || step.status === "lost")) return step.seconds >= 1 ? <span className="mono">{clock(step.seconds)}</span> : null;
  if (step.started_at === null || !["running", "retrying", "undoing"].includes(step.status)) return null;
  return <Running since={step.started_at} />;
}

function Running({ since }: { since: number }) {
  return <span className="mono">{clock(useNow() - since)}</span>;
}

/** What the step says while it works; the last lines, and not read out word by word. */
function Saying({ run, step }: { run: string; step: StepSheet }) {
  const text = useApp((app) => sayingOf(app.world.texts[run], step));
  return text ? (
    <div className="step-saying">
      <div>{text.slice(-700)}</div>
    </div>
  ) : null;
}
