/** The phone's head: the run's name, the way to the other runs, and the two tabs. */
import { Tabs } from "@base-ui/react/tabs";
import { titleOf } from "../model/words";
import { set, useApp, useRun, type Tab } from "../store";
import { Icon } from "./Icon";

export function PhoneHead({ openRail }: { openRail: () => void }) {
  const run = useRun();
  const tab = useApp((app) => app.tab);
  const asks = run?.questions.length ?? 0;
  return (
    <>
      <header className="phone-head">
        <button type="button" className="menu-button" aria-label="Runs" onClick={openRail}>
          <Icon name="menu" size={22} />
        </button>
        <h1 tabIndex={-1}>{run ? titleOf(run) : "Run"}</h1>
        <ViewToggle />
      </header>
      <Tabs.Root value={tab} onValueChange={(value) => set({ tab: value as Tab })} className="tabs-root">
        <Tabs.List className="tabs" aria-label="Steps or thread">
          <Tabs.Tab value="steps" className="tab">
            Steps{asks > 0 && <span className="hidden-words">, needs you</span>}
          </Tabs.Tab>
          <Tabs.Tab value="thread" className="tab">
            Thread
          </Tabs.Tab>
        </Tabs.List>
      </Tabs.Root>
    </>
  );
}

function ViewToggle() {
  const timeline = useApp((app) => app.view === "timeline");
  return (
    <button
      type="button"
      className="menu-button view-toggle"
      aria-label="Timeline"
      aria-pressed={timeline}
      onClick={() => set({ view: timeline ? "steps" : "timeline", tab: "steps" })}
    >
      <Icon name="timeline" />
    </button>
  );
}
