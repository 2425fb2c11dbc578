/** What concerns every run: a kill switch that is on, and a server that cannot be reached. */
import { useEffect, useState } from "react";
import { attempt } from "../actions";
import { retry } from "../boot";
import { isStopped, named, refused } from "../model/scopes";
import { hour } from "../model/words";
import { api } from "../net/api";
import { connection, useApp, useRun } from "../store";

const GONE_AFTER_MS = 5_000;

export function Banners() {
  const switches = useApp((app) => app.world.switches);
  const here = useRun()?.thread ?? "";
  const operator = useApp((app) => app.me?.role === "operator");
  return (
    <>
      {switches.map((one) => (
        <div className="banner" role="region" aria-label="Kill switch" key={one.scope}>
          <span>
            <b>{isStopped(one.scope, here)}</b> {hour(one.at)}, <bdi>{one.by}</bdi>
            {one.reason && <>: <bdi>{one.reason}</bdi></>}. {refused(one.scope, here)}.
          </span>
          {operator && (
            <button type="button" className="link" onClick={() => void attempt(() => api.release(one.scope))}>
              Allow runs again
              {switches.length > 1 && <span className="hidden-words"> for {named(one.scope, here)}</span>}
            </button>
          )}
        </div>
      ))}
      <ServerGone />
    </>
  );
}

function ServerGone() {
  const lostAt = useApp((app) => (connection(app) === "lost" ? (app.world.lostAt ?? 0) : null));
  const why = useApp((app) => app.world.why);
  const [long, setLong] = useState(false);
  useEffect(() => {
    setLong(false);
    if (lostAt === null) return;
    const timer = setTimeout(() => setLong(true), Math.max(0, lostAt + GONE_AFTER_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [lostAt]);
  if (!long) return null;
  return (
    <div className="banner calm" role="region" aria-label="Connection">
      <span>{why || `Cannot reach the agent server at ${location.host}. The run is saved and continues when it is back.`}</span>
      <button type="button" className="link" onClick={retry}>
        Retry
      </button>
    </div>
  );
}
