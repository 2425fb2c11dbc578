/** What somebody has typed and not sent. Kept for as long as the tab lives, whatever they press. */
const PREFIX = "midflight-draft:";

export function draft(place: string): string {
  return read(PREFIX + place) ?? "";
}

export function keepDraft(place: string, text: string): void {
  write(PREFIX + place, text);
}

/** What a form holds that is more than words; nothing, if it cannot be read. */
export function draftOf<T>(place: string): T | null {
  try {
    return JSON.parse(draft(place)) as T;
  } catch {
    return null;
  }
}

/** Words of a draft, as they were when they were sent. */
export interface Draft { place: string; text: string }

/** They have arrived. What was typed since then stays. */
export function forgetDraft({ place, text }: Draft): void {
  if (draft(place) === text) keepDraft(place, "");
}

/** What the browser would not keep; as long as the page is not loaded anew, nothing is missed. */
const memory = new Map<string, string>();

export function read(name: string, where: "sessionStorage" | "localStorage" = "sessionStorage"): string | null {
  try {
    return memory.get(name) ?? globalThis[where].getItem(name);
  } catch {
    return null;
  }
}

export function write(name: string, text: string, where: "sessionStorage" | "localStorage" = "sessionStorage"): void {
  memory.delete(name);
  try {
    if (text) globalThis[where].setItem(name, text);
    else globalThis[where].removeItem(name);
  } catch {
    memory.set(name, text); // full or forbidden
  }
}
