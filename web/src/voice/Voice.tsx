/** Where one can talk, a way to begin; what that takes is loaded when it is. */
import { lazy, Suspense } from "react";
import { useApp } from "../store";

const Talking = lazy(() => import("./Talking"));

export function Voice({ thread }: { thread: string }) {
  const offered = useApp((app) => app.me?.server.voice ?? false);
  return offered ? (
    <Suspense fallback={null}>
      <Talking key={thread} thread={thread} />
    </Suspense>
  ) : null;
}
