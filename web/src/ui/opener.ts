/** The focus goes back to what opened a form, or the next key would go nowhere. */
import { useEffect, useRef, type RefObject } from "react";

const isLost = (): boolean => document.activeElement === null || document.activeElement === document.body;

/** For a button in whose place something opens: it has the focus again once it is back; if it does not come back, `region` has. */
export function useOpener(open: boolean, region: string): RefObject<HTMLButtonElement | null> {
  const button = useRef<HTMLButtonElement>(null);
  const was = useRef(open);
  useEffect(() => {
    if (was.current && !open && isLost()) (button.current ?? document.getElementById(region))?.focus();
    was.current = open;
  }, [open]);
  return button;
}

/** For a field that is always there: who leaves it is again where they came from, or in its `region`. */
export function useWayBack(region: string): { cameFrom: (event: { relatedTarget: EventTarget | null }) => void; goBack: () => void } {
  const from = useRef<HTMLElement | null>(null);
  return {
    cameFrom: ({ relatedTarget }) => {
      from.current = relatedTarget as HTMLElement | null;
    },
    goBack: () => (from.current?.isConnected ? from.current : document.getElementById(region))?.focus(),
  };
}
