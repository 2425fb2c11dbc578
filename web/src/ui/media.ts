import { useSyncExternalStore } from "react";

export const PHONE = "(max-width: 43.74em)";
export const NARROW = "(max-width: 68.74em)";

export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (changed) => {
      const list = matchMedia(query);
      list.addEventListener("change", changed);
      return () => list.removeEventListener("change", changed);
    },
    () => matchMedia(query).matches,
  );
}
