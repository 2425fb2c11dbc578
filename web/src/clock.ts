/** One tick a second for whatever counts on the page. */
import { useSyncExternalStore } from "react";
import { serverNow } from "./store";

const listeners = new Set<() => void>();
let now = 0;
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  now = Math.floor(serverNow() * 2) / 2;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(tick, 500);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Server time in half seconds. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => (timer ? now || (now = serverNow()) : (now = Math.floor(serverNow() * 2) / 2)));
}
