/** What the agent has said, a change that was made, and what happened in between. */
import { lazy, Suspense, useState } from "react";
import { press, shownRun } from "../actions";
import { pathOf } from "../model/route";
import { unheardOf } from "../model/talk";
import type { Change, Line } from "../model/types";
import { go, useApp } from "../store";
import { Diff } from "./Diff";
import { Sentence } from "./Sentence";
import { Steer } from "./Steer";

const Markdown = lazy(() => import("./Markdown"));

const TITLES: Record<string, string> = { "said: partial": "Saved from this run", "said: report": "From the background", "said: aside": "Aside" };

/** Most of what is said is plain; only what uses Markdown loads the part that reads it. */
const isMarked = (text: string): boolean => /(^|\n)\s*([-*#>]|\d+\.)\s|[*_`]{1,2}\S|\]\(|```/.test(text);

export function Said({ line }: { line: Line }) {
  const title = TITLES[line.kind];
  const unheard = unheardOf(line) && <span className="who">{unheardOf(line)}</span>;
  const body = isMarked(line.text) ? (
    <div className="said markdown">
      <Suspense fallback={line.text}>
        <Markdown text={line.text} />
      </Suspense>
    </div>
  ) : (
    <p className="said">{line.text}</p>
  );
  if (line.kind === "said: partial")
    return (
      <li className="todo-card">
        <h3>{title}</h3>
        {body}
        {unheard}
      </li>
    );
  return (
    <li>
      {title && <span className="who">{title}</span>}
      {body}
      {unheard}
      {line.kind === "said: cancel?" && <CancelAsked run={line.run} />}
    </li>
  );
}

function CancelAsked({ run }: { run: string }) {
  const offered = useApp((app) => {
    const sheet = app.world.sheets[run];
    return app.run === run && sheet !== undefined && "phase" in sheet && sheet.phase === "paused";
  });
  if (!offered) return null;
  const cancel = () => {
    const shown = shownRun();
    if (shown) void press(shown, "cancel", {}, "Cancel");
  };
  return (
    <p className="outcome">
      <Steer className="link" onClick={cancel}>
        Cancel the run
      </Steer>
    </p>
  );
}

export function ThreadChange({ change }: { change: Change }) {
  const [open, setOpen] = useState(false);
  return (
    <li>
      <button type="button" className="change-line in-thread" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span className="words">
          <b>{change.applied ? "Changed" : "Will change"}</b>
          <Diff was={change.was} now={change.now} whole={open} />
        </span>
      </button>
    </li>
  );
}

export function Note({ text, theirs, run }: { text: string; theirs: string; run: string }) {
  const here = useApp((app) => app.run === run);
  const words = <Sentence text={text} theirs={theirs} />;
  return (
    <li>
      <p className="event-line">
        {run && !here ? (
          <a className="link" href={pathOf(run)} onClick={(event) => { event.preventDefault(); go(pathOf(run)); }}>
            {words}
          </a>
        ) : (
          words
        )}
      </p>
    </li>
  );
}
