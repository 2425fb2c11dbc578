/** Light, dark, or as the system has it. */
import { read, write } from "./model/drafts";

export type Theme = "system" | "light" | "dark";
const KEY = "midflight-theme";

export function theme(): Theme {
  const kept = read(KEY, "localStorage");
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function applyTheme(chosen: Theme = theme()): void {
  write(KEY, chosen === "system" ? "" : chosen, "localStorage");
  if (chosen === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
}
