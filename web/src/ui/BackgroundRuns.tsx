/** Runs that this one has begun. They are no steps: each has its own time and its own stop. */
import { attempt } from "../actions";
import { useNow } from "../clock";
import { looksOf } from "../model/phases";
import { pathOf } from "../model/route";
import { ENDED, type Background, type RunSheet } from "../model/types";
import { clock } from "../model/words";
import { api } from "../net/api";
import { go } from "../store";
import { Icon } from "./Icon";
import { Steer } from "./Steer";

export function BackgroundRuns({ run }: { run: RunSheet }) {
  const alive = run.background.filter((each) => !ENDED.has(each.phase));
  const ended = run.background.filter((each) => ENDED.has(each.phase));
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
  const { sign, tone, word } = looksOf(each.phase);
  const alive = !ENDED.has(each.phase);
  const stop = () => void attempt((key) => api.verb(each.run, "cancel", {}, key));
  return (
    <li>
      <span className={`tone-${tone}`}>
        <Icon name={sign} />
      </span>
      <span>
        <a href={pathOf(each.run)} onClick={(event) => { event.preventDefault(); go(pathOf(each.run)); }}>
          {each.title || each.run}
        </a>
        <span className="hidden-words">, {word}</span>
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
