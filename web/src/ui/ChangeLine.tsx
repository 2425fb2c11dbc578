/** The last redirect in one line; the whole of it on a tap. */
import { useState } from "react";
import type { Change } from "../model/types";
import { Diff } from "./Diff";

export function ChangeLine({ change }: { change: Change }) {
  const [open, setOpen] = useState(false);
  return (
    <button type="button" className="change-line" aria-expanded={open} onClick={() => setOpen(!open)}>
      <span className="words">
        <b>{change.applied ? "Changed" : "Will change"}</b>
        <Diff was={change.was} now={change.now} whole={open} />
      </span>
      {open && change.by && <span className="quiet">by <bdi>{change.by}</bdi>{change.applied ? "" : ", used at the next step"}</span>}
    </button>
  );
}
