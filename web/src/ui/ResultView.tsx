/** The whole result of a run, as it was returned. */
import { Dialog } from "@base-ui/react/dialog";
import { useEffect, useState } from "react";
import { attempt } from "../actions";
import { api } from "../net/api";
import { set } from "../store";
import Markdown from "./Markdown";

const close = () => set({ result: "" });

export default function ResultView({ run }: { run: string }) {
  const [result, setResult] = useState<unknown>(undefined);
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    void attempt(() => api.result(run), setWrong).then((found) => found && setResult(found.result ?? null));
  }, [run]);
  return (
    <Dialog.Root open onOpenChange={(open) => open || close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="dialog wide">
          <Dialog.Title>Result</Dialog.Title>
          {wrong && <p className="wrong">{wrong}</p>}
          {result !== undefined && <Shown result={result} />}
          <div className="buttons">
            <Dialog.Close className="button filled">Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Shown({ result }: { result: unknown }) {
  if (typeof result === "string")
    return (
      <div className="said markdown">
        <Markdown text={result} />
      </div>
    );
  if (result === null) return <p className="quiet">It returned nothing.</p>;
  return <pre className="raw">{JSON.stringify(result, null, 2)}</pre>;
}
