/** Stop all agents: asked once more, with what it does not do. The safe answer has the focus. */
import { AlertDialog } from "@base-ui/react/alert-dialog";
import { useRef, useState } from "react";
import { attempt } from "../actions";
import { ENDED } from "../model/types";
import { api } from "../net/api";
import { useApp } from "../store";

export default function KillSwitch({ close }: { close: () => void }) {
  const rows = useApp((app) => app.world.rows);
  const moving = Object.values(rows).filter((row) => !ENDED.has(row.phase) && !["paused", "waiting"].includes(row.phase)).length;
  const [wrong, setWrong] = useState("");
  const keep = useRef<HTMLButtonElement>(null);
  const agents = `${moving} ${moving === 1 ? "agent" : "agents"}`;
  const stop = async () => {
    if (await attempt(() => api.kill("all", ""), setWrong)) close();
  };
  return (
    <AlertDialog.Root open onOpenChange={(open) => open || close()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="scrim" />
        <AlertDialog.Popup className="dialog" initialFocus={keep}>
          <AlertDialog.Title>{moving ? `Stop ${moving} running ${moving === 1 ? "agent" : "agents"} now?` : "Stop all agents now?"}</AlertDialog.Title>
          <AlertDialog.Description className="quiet">
            No undo and no saving. Use Cancel to stop one run cleanly. New runs are refused until you allow them again.
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
              Stop {moving ? agents : "all agents"}
            </button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
