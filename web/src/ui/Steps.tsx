/** The steps in their order. A long list shows only what is on the screen. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useRef, useState } from "react";
import type { RunSheet, StepSheet } from "../model/types";
import { clock, standing } from "../model/words";
import { Icon } from "./Icon";
import { StepItem } from "./StepItem";

const WINDOWED_FROM = 200;
const ROW_PX = 62;
const FOLDED_FROM = 2;

export function Steps({ run, phone }: { run: RunSheet; phone: boolean }) {
  if (run.steps.length === 0) return <p className="quiet">{run.phase === "queued" ? "It has not begun yet." : "No step yet."}</p>;
  if (run.steps.length > WINDOWED_FROM) return <WindowedSteps run={run} />;
  return <PlainSteps run={run} phone={phone} />;
}

function PlainSteps({ run, phone }: { run: RunSheet; phone: boolean }) {
  const [open, setOpen] = useState(false);
  const list = useRef<HTMLOListElement>(null);
  const begun = run.steps.findIndex((step) => step.status !== "done");
  const folded = phone && !open && run.phase === "waiting" && begun >= FOLDED_FROM ? begun : 0;
  useLayoutEffect(() => {
    const current = list.current?.querySelector(`[data-index="${standing(run)}"]`);
    const pane = list.current?.closest(".steps-pane");
    if (current && pane && pane.scrollHeight > pane.clientHeight) current.scrollIntoView({ block: "center" });
  }, []);
  return (
    <ol className="steps" role="list" ref={list}>
      {folded > 0 && <DoneSteps steps={run.steps.slice(0, folded)} open={() => setOpen(true)} />}
      {run.steps.slice(folded).map((step, at) => (
        <StepItem key={step.id} step={step} number={folded + at + 1} run={run} last={folded + at + 1 === run.steps.length} />
      ))}
    </ol>
  );
}

function DoneSteps({ steps, open }: { steps: StepSheet[]; open: () => void }) {
  const seconds = steps.reduce((sum, step) => sum + (step.seconds ?? 0), 0);
  return (
    <li className="step done">
      <button type="button" className="step-row" aria-expanded={false} onClick={open}>
        <span className="step-icon">
          <Icon name="done" />
        </span>
        <span className="step-name many-done">{steps.length} steps done</span>
        <span className="step-side mono">{clock(seconds)}</span>
      </button>
    </li>
  );
}

function WindowedSteps({ run }: { run: RunSheet }) {
  const list = useRef<HTMLOListElement>(null);
  const [margin, setMargin] = useState(0);
  const pane = () => list.current?.closest<HTMLElement>(".steps-pane") ?? null;
  const current = standing(run);
  const rows = useVirtualizer({
    count: run.steps.length,
    getScrollElement: pane,
    estimateSize: () => ROW_PX,
    overscan: 4,
    scrollMargin: margin,
    getItemKey: (at) => run.steps[at]!.id,
  });
  useLayoutEffect(() => {
    const box = pane();
    if (box && list.current) setMargin(list.current.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop);
    if (current > 0) rows.scrollToIndex(current, { align: "center" });
  }, []);
  const shown = rows.getVirtualItems();
  const away = current >= 0 && shown.length > 0 && (current < shown[0]!.index || current > shown.at(-1)!.index);
  return (
    <>
      <ol className="steps windowed" role="list" ref={list} style={{ "--height": `${rows.getTotalSize()}px` } as React.CSSProperties}>
        {shown.map((item) => (
          <StepItem
            key={item.key}
            step={run.steps[item.index]!}
            number={item.index + 1}
            run={run}
            last={item.index + 1 === run.steps.length}
            window={{ ref: rows.measureElement, top: item.start - margin, of: run.steps.length }}
          />
        ))}
      </ol>
      {away && (
        <div className="more-steps">
          <button type="button" className="button" onClick={() => rows.scrollToIndex(current, { align: "center" })}>
            To step {current + 1}
          </button>
        </div>
      )}
    </>
  );
}
