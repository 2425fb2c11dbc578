/** Settings: the look, the keys, and who you are here. */
import { Dialog } from "@base-ui/react/dialog";
import { useState } from "react";
import { api } from "../net/api";
import { set, useApp } from "../store";
import { applyTheme, theme, type Theme } from "../theme";
import { KEYS } from "./keys";

const LOOKS: [Theme, string][] = [["system", "As the system"], ["light", "Light"], ["dark", "Dark"]];

export default function Settings({ close }: { close: () => void }) {
  const me = useApp((app) => app.me);
  const leave = async () => {
    await api.leave().catch(() => null);
    set({ entry: "shut out" });
  };
  return (
    <Dialog.Root open onOpenChange={(open) => open || close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>Settings</Dialog.Title>
          <Look />
          <div>
            <h3 className="quiet">Keys</h3>
            <dl className="keys">
              {KEYS.map(([what, key]) => (
                <div key={what} className="key-row">
                  <dt>{what}</dt>
                  <dd>
                    <kbd>{key}</kbd>
                  </dd>
                </div>
              ))}
            </dl>
          </div>
          <p className="quiet">
            You are {me?.by}, {me?.role}. Midflight {me?.server.version}, {me?.server.store}.
          </p>
          <div className="buttons">
            <button type="button" className="button" onClick={() => void leave()}>
              End this session
            </button>
            <Dialog.Close className="button filled">Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Look() {
  const [chosen, setChosen] = useState(theme);
  return (
    <fieldset className="choice" aria-label="Look">
      {LOOKS.map(([value, word]) => (
        <label key={value}>
          <input
            type="radio"
            name="look"
            checked={chosen === value}
            onChange={() => {
              applyTheme(value);
              setChosen(value);
            }}
          />
          {word}
        </label>
      ))}
    </fieldset>
  );
}
