/** The thread: messages at any time, what became of each, and what is still to do. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { itemsOf, type Item } from "../model/talk";
import { asked } from "../model/bar";
import { sayingOf } from "../model/world";
import { useNow } from "../clock";
import type { RunSheet } from "../model/types";
import { straight } from "../model/words";
import { set, useApp, useRun, useThread } from "../store";
import { Voice } from "../voice/Voice";
import { Composer } from "./Composer";
import { Message } from "./Message";
import { Note, Said, ThreadChange } from "./Said";
import { TodoCard } from "./TodoCard";

const SHOWN = 150;
const NEAR_PX = 60;
const TAIL = 3000; // characters of what is being said; the whole is shown when it is finished

export function ThreadPane({ phone }: { phone: boolean }) {
  const run = useRun();
  return (
    <>
      <header>
        <h2>Thread</h2>
      </header>
      <Lines run={run} />
      {run && <Voice thread={run.thread} />}
      {!phone && run && <Composer run={run} />}
    </>
  );
}

function Lines({ run }: { run: RunSheet | undefined }) {
  const thread = useThread();
  const [more, setMore] = useState(SHOWN);
  const box = useRef<HTMLDivElement>(null);
  const items = useMemo(() => (thread ? itemsOf(thread, run) : []), [thread, run]);
  const shown = items.slice(-more);
  useStayAtEnd(box, items);
  return (
    <div className="lines" ref={box} tabIndex={0} role="region" aria-label="Messages">
      <ol>
        {shown.length < items.length && (
          <li>
            <button type="button" className="older" onClick={() => setMore(more + SHOWN)}>
              Show earlier messages
            </button>
          </li>
        )}
        {shown.map((item) => (
          <One key={item.key} item={item} />
        ))}
        {run && thread?.hosted && <Saying run={run} />}
        {run && thread && <TodoCard run={run} thread={thread} />}
        {run && asked(run) && <Asking run={run} />}
      </ol>
    </div>
  );
}

/** Who reads the end goes on reading the end; who has scrolled up is left alone. */
function useStayAtEnd(box: React.RefObject<HTMLDivElement | null>, items: Item[]): void {
  const atEnd = useRef(true);
  useEffect(() => {
    const lines = box.current;
    if (!lines) return;
    let size = "";
    const scrolled = () => {
      const now = `${lines.scrollHeight}/${lines.clientHeight}`;
      if (now !== size) return void (size = now); // not the person: what is shown has changed its size
      atEnd.current = lines.scrollHeight - lines.scrollTop - lines.clientHeight < NEAR_PX;
    };
    const follow = () => {
      if (atEnd.current) lines.scrollTop = lines.scrollHeight;
      size = `${lines.scrollHeight}/${lines.clientHeight}`;
    };
    lines.addEventListener("scroll", scrolled, { passive: true });
    const sized = new ResizeObserver(follow);
    sized.observe(lines);
    if (lines.firstElementChild) sized.observe(lines.firstElementChild);
    return () => {
      lines.removeEventListener("scroll", scrolled);
      sized.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [items.length]);
}

function One({ item }: { item: Item }) {
  switch (item.kind) {
    case "message":
      return <Message line={item.line} outcome={item.outcome} />;
    case "brief":
      return (
        <li className="from-me">
          <p className="mine">{item.text}</p>
        </li>
      );
    case "said":
      return <Said line={item.line} />;
    case "change":
      return <ThreadChange change={item.change} />;
    case "note":
      return <Note text={item.text} theirs={item.theirs} run={item.run} />;
  }
}

/** What the agent is saying right now. It is read out when it is finished, not word by word. */
function Saying({ run }: { run: RunSheet }) {
  const step = run.steps.findLast((each) => each.effect === "model" && (each.status === "running" || each.status === "retrying"));
  const text = useApp((app) => (step ? sayingOf(app.world.texts[run.run], step) : ""));
  return text ? (
    <li>
      <p className="said saying">{text.length > TAIL ? `… ${text.slice(-TAIL)}` : text}</p>
    </li>
  ) : null;
}

function Asking({ run }: { run: RunSheet }) {
  const question = asked(run)!;
  const now = useNow();
  if (question.expires_at !== null && now > question.expires_at) return null; // its card says so
  const show = () => {
    set({ tab: "steps" });
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-question="${question.question}"]`)?.focus());
  };
  return (
    <li>
      <p className="event-line">
        Waiting for you:{" "}
        <button type="button" className="link" onClick={show}>
          {straight(question.message)}
        </button>
      </p>
    </li>
  );
}
