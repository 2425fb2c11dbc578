/** The kill switch: what to stop is chosen, and asked once more with what it does not do. The safe answer has the focus. */
import { AlertDialog } from "@base-ui/react/alert-dialog";
import { useRef, useState } from "react";
import { attempt } from "../actions";
import { reached, refused, scopesAt, stopped, type Scope } from "../model/scopes";
import { count } from "../model/words";
import { api } from "../net/api";
import { useApp, useRun } from "../store";

export default function KillSwitch({ close }: { close: () => void }) {
  const rows = useApp((app) => app.world.rows);
  const run = useRun();
  const [scopes] = useState(() => scopesAt(run)); // as it was opened: what is chosen must not change under the finger
  const [here] = useState(run?.thread ?? "");
  const [scope, setScope] = useState("all");
  const [wrong, setWrong] = useState("");
  const keep = useRef<HTMLButtonElement>(null);
  const { moving, resting } = reached(scope, Object.values(rows));
  const what = stopped(scope, moving, here);
  const stop = async () => {
    if (await attempt(() => api.kill(scope, ""), setWrong)) close();
  };
  return (
    <AlertDialog.Root open onOpenChange={(open) => open || close()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="scrim" />
        <AlertDialog.Popup className="dialog" initialFocus={keep}>
          <AlertDialog.Title>Stop {what} now?</AlertDialog.Title>
          {scopes.length > 1 && <Choice scopes={scopes} chosen={scope} choose={setScope} />}
          <AlertDialog.Description className="quiet">
            No undo and no saving. Use Cancel to stop one run cleanly. {refused(scope, here)} until you allow them again
            {resting > 0 && `; ${count(resting, "run")} that ${resting === 1 ? "rests" : "rest"} cannot go on until then`}.
          </AlertDialog.Description>
          {wrong && (
            <p className="wrong" role="alert">
              {wrong}
            </p>
          )}
          <div className="buttons">
            <AlertDialog.Close ref={keep} className="button">
              Keep running
            </AlertDialog.Close>
            <button type="button" className="button danger" onClick={() => void stop()}>
              Stop {what}
            </button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}

function Choice({ scopes, chosen, choose }: { scopes: Scope[]; chosen: string; choose: (scope: string) => void }) {
  return (
    <fieldset className="choice tall" aria-label="What to stop">
      {scopes.map(({ scope, choice }) => (
        <label key={scope}>
          <input type="radio" name="scope" checked={chosen === scope} onChange={() => choose(scope)} />
          <span>{choice}</span>
        </label>
      ))}
    </fieldset>
  );
}
