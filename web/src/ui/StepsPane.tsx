/** The run: what it is for, its steps or its timeline, what it left in the background, and its receipt. */
import { lazy, Suspense, useState } from "react";
import { pathOf } from "../model/route";
import { ENDED, type RunSheet } from "../model/types";
import { straight, titleOf } from "../model/words";
import { go, set, useApp, useRun, useThread } from "../store";
import { BackgroundRuns } from "./BackgroundRuns";
import { ChangeLine } from "./ChangeLine";
import { Icon } from "./Icon";
import { Loading } from "./Loading";
import { LooseQuestions } from "./QuestionCard";
import { ReceiptCard } from "./ReceiptCard";
import { Steps } from "./Steps";

const Timeline = lazy(() => import("./Timeline"));

export function StepsPane({ phone, openRail }: { phone: boolean; openRail: () => void }) {
  const run = useRun();
  const view = useApp((app) => app.view);
  if (!run) return <Loading what="Loading the run" />;
  return (
    <>
      {!phone && (
        <div className="pane-head">
          <button type="button" className="menu-button" aria-label="Runs" onClick={openRail}>
            <Icon name="menu" size={22} />
          </button>
          <Heading run={run} />
          <ViewSwitch />
        </div>
      )}
      <div className="pane-body">
        <Notes run={run} />
        {view === "steps" ? (
          <Steps run={run} phone={phone} />
        ) : (
          <Suspense fallback={<Loading what="Loading the timeline" />}>
            <Timeline run={run} />
          </Suspense>
        )}
        <LooseQuestions run={run} />
        <BackgroundRuns run={run} />
        {(ENDED.has(run.phase) || run.phase === "cancelling") && <ReceiptCard run={run} />}
      </div>
    </>
  );
}

function Heading({ run }: { run: RunSheet }) {
  const [open, setOpen] = useState(false);
  const title = titleOf(run);
  return (
    <div className="heading">
      <h1 tabIndex={-1}>{title}</h1>
      {run.brief !== title && (
        <button type="button" className={`sub${open ? "" : " long"}`} aria-expanded={open} onClick={() => setOpen(!open)}>
          <span className="hidden-words">Brief: </span>
          <bdi>{run.brief}</bdi>
        </button>
      )}
    </div>
  );
}

export function ViewSwitch() {
  const view = useApp((app) => app.view);
  return (
    <div className="view-switch" role="group" aria-label="View">
      <button type="button" aria-pressed={view === "steps"} onClick={() => set({ view: "steps", tab: "steps" })}>
        <Icon name="list" size={16} />
        <span>Steps</span>
      </button>
      <button type="button" aria-pressed={view === "timeline"} onClick={() => set({ view: "timeline", tab: "steps" })}>
        <Icon name="timeline" size={16} />
        <span>Timeline</span>
      </button>
    </div>
  );
}

function Notes({ run }: { run: RunSheet }) {
  const thread = useThread();
  const rows = useApp((app) => app.world.rows);
  const change = run.changes.at(-1);
  const front = thread?.front && thread.front !== run.run && !run.parent ? rows[thread.front] : undefined;
  return (
    <>
      {change && <ChangeLine change={change} />}
      {run.parent && <Link words="A background run of" to={run.parent} name={rows[run.parent]?.title || "another run"} />}
      {run.fork_of && <Link words="A fork of" to={run.fork_of} name={rows[run.fork_of]?.title || "an earlier run"} />}
      {front && !ENDED.has(front.phase) && <Link words="In front now:" to={front.journal} name={front.title || front.agent} />}
      {run.notices.slice(-1).map(([kind, text]) => (
        <p className="aside-line warn" key={kind}>
          {straight(text)}
        </p>
      ))}
    </>
  );
}

function Link({ words, to, name }: { words: string; to: string; name: string }) {
  return (
    <p className="aside-line">
      {words}{" "}
      <a className="link" href={pathOf(to)} onClick={(event) => { event.preventDefault(); go(pathOf(to)); }}>
        <bdi>{name}</bdi>
      </a>
    </p>
  );
}
