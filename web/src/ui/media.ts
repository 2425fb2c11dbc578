import { useSyncExternalStore } from "react";

export const PHONE = "(max-width: 43.74em)";
export const NARROW = "(max-width: 68.74em)";

export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (changed) => {
      const list = matchMedia(query);
      list.addEventListener("change", changed);
      const letters = whenLettersGrow(changed);
      return () => {
        list.removeEventListener("change", changed);
        letters();
      };
    },
    () => matchMedia(query).matches,
  );
}

/** Browsers do not tell a query in ems when its em changes; the style sheet follows at once, and so must the rest. */
function whenLettersGrow(changed: () => void): () => void {
  const em = document.body.appendChild(document.createElement("i"));
  Object.assign(em.style, { position: "fixed", visibility: "hidden", width: "1rem" });
  const measured = new ResizeObserver(changed);
  measured.observe(em);
  return () => {
    measured.disconnect();
    em.remove();
  };
}
