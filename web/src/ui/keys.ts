/** Keys of the whole page. Esc is the panic key, so it costs nothing: it pauses, and never cancels or clears text. */
import { useEffect, type KeyboardEvent as Pressed } from "react";
import { set, state } from "../store";

export const KEYS: [string, string][] = [
  ["Pause or resume", "Esc"],
  ["Redirect", "Ctrl E"],
  ["Cancel the run", "Ctrl ."],
  ["Send, and switch to it now", "Ctrl Enter"],
  ["Write a message", "/"],
  ["Next part of the page", "F6"],
];

const REGIONS = ["rail", "steps", "thread", "controls"];

export function useKeys(): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing) return;
      if (onKey(event)) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function onKey(event: KeyboardEvent): boolean {
  const command = event.ctrlKey || event.metaKey;
  if (event.key === "F6") return nextRegion(event.shiftKey);
  if (document.querySelector("[role=dialog],[role=alertdialog]")) return false;
  if (event.key === "Escape" && !event.repeat) return escape();
  if (command && event.key.toLowerCase() === "e") return pressSlot("redirect");
  if (command && event.key === ".") return pressSlot("cancel");
  if (event.key === "/" && !command && !isTyping(event.target)) return focusOn("message");
  return false;
}

/** For a form: Esc leaves it, with what is typed kept, and leaves the run alone. */
export function leavesOnEscape(leave: () => void): (event: Pressed) => void {
  return (event) => {
    if (event.key !== "Escape" || event.nativeEvent.isComposing) return;
    event.preventDefault();
    leave();
  };
}

function escape(): boolean {
  if (state().layer !== "none") {
    set({ layer: "none" });
    return true;
  }
  return pressSlot("pause");
}

function pressSlot(name: string): boolean {
  const button = document.querySelector<HTMLButtonElement>(`[data-key="${name}"]`);
  if (!button) return false;
  button.click();
  return true;
}

function focusOn(id: string): boolean {
  const found = document.getElementById(id);
  found?.focus();
  return found !== null;
}

function nextRegion(back: boolean): boolean {
  const there = REGIONS.map((id) => document.getElementById(id)).filter((found) => found !== null);
  const at = there.findIndex((region) => region.contains(document.activeElement));
  const next = there[(at + (back ? -1 : 1) + there.length) % there.length] ?? there[0];
  if (!next) return false;
  const first = next.id === "controls" ? next.querySelector<HTMLElement>("button") : null;
  (first ?? next).focus();
  return true;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
