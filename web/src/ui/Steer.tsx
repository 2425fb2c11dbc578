/** A button that changes what is done. Who may only look on sees it, and is told why it is off. */
import type { ComponentProps } from "react";
import { useApp } from "../store";

export const LOOKS_ON = "Viewers look and write";

export function Steer({ title, onClick, ...rest }: ComponentProps<"button">) {
  const viewer = useApp((app) => app.me?.role === "viewer");
  return <button type="button" {...rest} aria-disabled={viewer || undefined} title={viewer ? LOOKS_ON : title} onClick={viewer ? undefined : onClick} />;
}
