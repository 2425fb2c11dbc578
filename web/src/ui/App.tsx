/** The whole page: rail, work and bar; or why there is nothing to show. */
import { lazy, Suspense, useEffect, useState } from "react";
import { retry, comeIn } from "../boot";
import { ENDED } from "../model/types";
import { capital, titleOf } from "../model/words";
import { useApp, useRun } from "../store";
import { Announcer } from "./Announcer";
import { Banners } from "./Banners";
import { ControlBar } from "./ControlBar";
import { useKeys } from "./keys";
import { NARROW, PHONE, useMedia } from "./media";
import { Loading } from "./Loading";
import { PhoneHead } from "./PhoneHead";
import { Rail } from "./Rail";
import { Sound } from "./Sound";
import { StartRun } from "./StartRun";
import { StepsPane } from "./StepsPane";
import { ThreadPane } from "./ThreadPane";

const RailDrawer = lazy(() => import("./RailDrawer"));
const ResultView = lazy(() => import("./ResultView"));

export function App() {
  const entry = useApp((app) => app.entry);
  if (entry === "in") return <House />;
  return (
    <main className="gate">
      {entry === "coming in" && <Loading what="Coming in" />}
      {entry === "shut out" && <ShutOut />}
      {entry === "unreachable" && <Unreachable />}
    </main>
  );
}

function ShutOut() {
  return (
    <>
      <h1>This page needs a new link</h1>
      <p className="quiet">
        A link lets one browser in, once, and a session ends after a while. Who runs the server makes another, for a name and a role, with{" "}
        <code className="mono">midflight token NAME --link {location.origin}</code>. Nothing was changed, and runs go on.
      </p>
    </>
  );
}

function Unreachable() {
  return (
    <>
      <h1>Cannot reach the agent server at {location.host}</h1>
      <p className="quiet">The runs are saved and continue when it is back.</p>
      <div className="buttons">
        <button type="button" className="button filled" onClick={() => void comeIn()}>
          Retry
        </button>
      </div>
    </>
  );
}

function House() {
  const narrow = useMedia(NARROW);
  const phone = useMedia(PHONE);
  const [drawer, setDrawer] = useState(false);
  const path = useApp((app) => app.route);
  const result = useApp((app) => app.result);
  const shown = useApp((app) => app.run !== "" && app.world.sheets[app.run] !== undefined);
  useKeys();
  useEffect(() => setDrawer(false), [path]);
  return (
    <div className="shell">
      {shown && <SkipLink />}
      <Banners />
      {!narrow && (
        <Sound part="The list of runs">
          <Rail />
        </Sound>
      )}
      <Work phone={phone} openRail={() => setDrawer(true)} />
      <Sound part="This dialog">
        <Suspense>
          {narrow && drawer && <RailDrawer close={() => setDrawer(false)} />}
          {result && <ResultView run={result} />}
        </Suspense>
      </Sound>
      <Announcer />
    </div>
  );
}

function SkipLink() {
  const skip = (event: React.MouseEvent) => {
    event.preventDefault();
    document.querySelector<HTMLElement>("#controls button")?.focus();
  };
  return (
    <nav aria-label="Skip">
      <a className="skip" href="#controls" onClick={skip}>
        To the run controls
      </a>
    </nav>
  );
}

function Work({ phone, openRail }: { phone: boolean; openRail: () => void }) {
  const route = useApp((app) => app.route);
  const shown = useApp((app) => app.run);
  const missing = useApp((app) => app.missing || (app.world.gone[app.run] ? "This run is not kept any more." : ""));
  const tab = useApp((app) => app.tab);
  const run = useRun();
  useTitle(run && titleOf(run), run?.phase);
  if (route.page === "home") return <StartRun openRail={openRail} />;
  if (route.page === "lost" || missing) return <Missing why={missing} openRail={openRail} />;
  return (
    <main className="work" key={shown} data-run={run?.run} data-tab={tab}>
      {phone && <PhoneHead openRail={openRail} />}
      {(!phone || tab === "steps") && (
        <section className="steps-pane" id="steps" aria-label="Steps" tabIndex={-1}>
          <Sound part="The steps">
            <StepsPane phone={phone} openRail={openRail} />
          </Sound>
        </section>
      )}
      {(!phone || tab === "thread") && (
        <section className="thread-pane" id="thread" aria-label="Thread" tabIndex={-1}>
          <Sound part="The thread">
            <ThreadPane phone={phone} />
          </Sound>
        </section>
      )}
      {run && <ControlBar run={run} phone={phone} />}
    </main>
  );
}

function useTitle(name: string | undefined, phase: string | undefined): void {
  useEffect(() => {
    const mark = phase === "waiting" ? "(!) " : phase && !ENDED.has(phase) ? "• " : "";
    document.title = name ? `${mark}${name}` : "Midflight";
  }, [name, phase]);
}

function Missing({ why, openRail }: { why: string; openRail: () => void }) {
  return (
    <main className="work alone">
      <div className="steps-pane empty">
        <h1>There is nothing at this address</h1>
        <p className="quiet">{capital(why)}</p>
        <p className="buttons">
          <button type="button" className="button" onClick={openRail}>
            Show runs
          </button>
          <button type="button" className="button" onClick={retry}>
            Retry
          </button>
        </p>
      </div>
    </main>
  );
}
