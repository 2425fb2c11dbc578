/** Where in the page we are, from the address. */
export type Route = { page: "home" } | { page: "run"; run: string } | { page: "thread"; thread: string } | { page: "lost" };

export function routeOf(path: string): Route {
  const [, kind = "", id = "", ...rest] = path.replace(/\/$/, "").split("/");
  const named = safe(id);
  if (kind === "" && !id) return { page: "home" };
  if (rest.length === 0 && kind === "runs" && named.startsWith("r-")) return { page: "run", run: named };
  if (rest.length === 0 && kind === "threads" && named.startsWith("t-")) return { page: "thread", thread: named };
  return { page: "lost" };
}

function safe(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

export const pathOf = (run: string): string => `runs/${encodeURIComponent(run)}`;
