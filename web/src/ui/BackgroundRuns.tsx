/** Runs that this one has begun. They are no steps: each has its own time and its own stop. */
import { attempt } from "../actions";
import { useNow } from "../clock";
import { looksOfChild } from "../model/phases";
import { pathOf } from "../model/route";
import type { Background, RunSheet } from "../model/types";
import { clock } from "../model/words";
import { api } from "../net/api";
import { go } from "../store";
import { Icon } from "./Icon";
import { Steer } from "./Steer";

export function BackgroundRuns({ run }: { run: RunSheet }) {
  const alive = run.background.filter((each) => each.ended_at === null);
  const ended = run.background.filter((each) => each.ended_at !== null);
  if (run.background.length === 0) return null;
  return (
    <section className="background" aria-label="In the background">
      <h2>In the background</h2>
      <ul>
        {[...alive, ...ended.slice(-3)].map((each) => (
          <One key={each.run} each={each} />
        ))}
      </ul>
      {ended.length > 3 && <p className="quiet">{ended.length - 3} more ended earlier</p>}
    </section>
  );
}

function One({ each }: { each: Background }) {
  const { sign, tone, word } = looksOfChild(each);
  const alive = each.ended_at === null;
  const deleted = each.phase === "purged";
  const stop = () => void attempt((key) => api.verb(each.run, "cancel", {}, key));
  return (
    <li>
      <span className={`tone-${tone}`}>
        <Icon name={sign} />
      </span>
      <span>
        {deleted ? <bdi>{each.title || each.run}</bdi> : (
          <a href={pathOf(each.run)} onClick={(event) => { event.preventDefault(); go(pathOf(each.run)); }}>
            <bdi>{each.title || each.run}</bdi>
          </a>
        )}
        <span className={deleted ? "quiet" : "hidden-words"}>, {word}</span>
      </span>
      <Elapsed each={each} />
      {alive && (
        <Steer className="stop-one" aria-label={`Cancel ${each.title || each.run}`} title="Cancel this one; the run goes on" onClick={stop}>
          <Icon name="cancel" />
        </Steer>
      )}
    </li>
  );
}

function Elapsed({ each }: { each: Background }) {
  const now = useNow();
  return <span className="mono">{clock((each.ended_at ?? now) - each.started_at)}</span>;
}
