/** The bar: how the run stands, and three slots whose order never changes. The last thing of the page, never covered. */
import { Toolbar } from "@base-ui/react/toolbar";
import { useEffect, useLayoutEffect, useRef } from "react";
import { bringBack, expecting, fork, press, takeBackPress } from "../actions";
import { useNow } from "../clock";
import { barOf, type Act, type Bar, type Slot } from "../model/bar";
import { keepDraft } from "../model/drafts";
import { gauge } from "../model/meters";
import { waiting } from "../model/presses";
import type { RunSheet } from "../model/types";
import { barClock, place, straight, worked } from "../model/words";
import { connection, go, set, state, useApp, useThread } from "../store";
import { BarLayer } from "./BarLayer";
import { Composer } from "./Composer";
import { Icon } from "./Icon";

const AGAIN_MS = 400; // the second tap of a double tap must not undo the first
const TURNED_MS = 250; // who aimed at Pause when somebody else paused must not resume it
const STOPS: ReadonlySet<string> = new Set(["pause", "cancel"]);

/** Of the whole bar: after a cancel it has fewer slots, and another lies under the second tap. */
let pressed = { at: -AGAIN_MS, slot: -1 };

/** The second tap of a double tap. Stopping by another slot, or opening a layer, is never taken for one. */
function isSecondTap(act: Act, slot: number, now: number): boolean {
  if (now - pressed.at >= AGAIN_MS) return false;
  const harmless = act.do === "layer" || (act.do === "verb" && STOPS.has(act.verb));
  return slot === pressed.slot || !harmless;
}

export function ControlBar({ run, phone }: { run: RunSheet; phone: boolean }) {
  const thread = useThread();
  const line = useApp(connection);
  const operator = useApp((app) => app.me?.role === "operator");
  const layer = useApp((app) => app.layer);
  const now = useNow();
  const bar = barOf(run, { connection: line, now, thread, operator });
  const box = useRef<HTMLDivElement>(null);
  useMeasuredHeight(box);
  useFocusReturn(layer);
  return (
    <div className={`bar ${bar.tone}`} ref={box}>
      {layer !== "none" ? <BarLayer layer={layer} run={run} slots={bar.slots} /> : phone && <Composer run={run} />}
      <PressAsks run={run} />
      <div className="bar-main">
        <Status bar={bar} run={run} />
        <Toolbar.Root className="slots" aria-label="Run controls" id="controls" tabIndex={-1} style={{ "--slots": bar.slots.length } as React.CSSProperties}>
          {bar.slots.map((slot, at) => (
            <SlotButton key={at} slot={layer === "none" ? slot : { ...slot, filled: false }} at={at} run={run} />
          ))}
        </Toolbar.Root>
      </div>
    </div>
  );
}

/** Content ends above the bar, and nothing that has the focus is hidden under it. */
function useMeasuredHeight(box: React.RefObject<HTMLDivElement | null>): void {
  useLayoutEffect(() => {
    const bar = box.current;
    if (!bar) return;
    const root = document.documentElement.style;
    const measured = new ResizeObserver(() => root.setProperty("--bar-h", `${bar.offsetHeight}px`));
    measured.observe(bar);
    return () => {
      measured.disconnect();
      root.removeProperty("--bar-h");
    };
  }, []);
}

/** Closing a layer gives the focus back to the slot that opened it. */
function useFocusReturn(layer: string): void {
  const before = useRef({ layer: "none", from: null as Element | null });
  useEffect(() => {
    if (layer !== "none" && before.current.layer === "none") before.current.from = document.querySelector(`[data-opens="${layer}"]`);
    if (layer === "none" && before.current.layer !== "none" && document.activeElement === document.body)
      (before.current.from as HTMLElement | null)?.focus();
    before.current.layer = layer;
  }, [layer]);
}

function Status({ bar, run }: { bar: Bar; run: RunSheet }) {
  const notice = useApp((app) => app.notice);
  const press = useApp((app) => app.presses.find((each) => each.run === run.run));
  return (
    <div className="status">
      <Icon name={bar.glyph} />
      <p className="what" title={notice || bar.detail}>
        <b>{bar.word}</b>
        <span className={notice ? "notice" : ""}>{press ? waiting(press) : straight(notice || bar.detail)}</span>
        {press && (
          <button type="button" className="link" onClick={() => takeBackPress(press.key)}>
            Take back
          </button>
        )}
      </p>
      <SpendMeter run={run} />
    </div>
  );
}

function SpendMeter({ run }: { run: RunSheet }) {
  const now = useNow();
  const { spent, cap, share, near, label, about } = gauge(run, now);
  return (
    <div className="meter mono" title={about && `Caps: ${about}`}>
      <span>{barClock(worked(run, now))}</span>
      <span>{place(run)}</span>
      {cap && <span>{spent}</span>}
      <span className={near ? "near" : ""}>
        {cap || spent}
        {share !== null && (
          <span
            className="track"
            role="meter"
            aria-label={label}
            aria-valuenow={Math.round(share * 100)}
            aria-valuemin={0}
            aria-valuemax={100}
            style={{ "--share": share } as React.CSSProperties}
          >
            <span />
          </span>
        )}
      </span>
    </div>
  );
}

const SHORTCUTS: Record<string, string> = { Esc: "Escape", "Ctrl E": "Control+E", "Ctrl .": "Control+." };

function SlotButton({ slot, at, run }: { slot: Slot; at: number; run: RunSheet }) {
  const verb = slot.act.do === "verb" ? slot.act.verb : "";
  const busy = useApp((app) => verb !== "" && app.busy[`${run.run}:${verb}`] === true);
  const viewer = useApp((app) => app.me?.role === "viewer") && slot.role !== "viewer" && slot.act.do !== "review";
  const turned = useRef({ label: slot.label, at: 0 });
  if (turned.current.label !== slot.label) turned.current = { label: slot.label, at: performance.now() };
  const off = !slot.enabled || viewer;
  const act = () => {
    const now = performance.now();
    const late = !STOPS.has(verb) && now - turned.current.at < TURNED_MS;
    if (off || late || isSecondTap(slot.act, at, now)) return;
    pressed = { at: now, slot: at };
    perform(slot, run);
  };
  const key = slot.keys === "Esc" ? "pause" : slot.keys === "Ctrl E" ? "redirect" : slot.keys === "Ctrl ." ? "cancel" : undefined;
  const consequence = viewer ? "You look on; a controller can" : straight(slot.consequence);
  return (
    <Toolbar.Button
      className={`slot${slot.filled && !viewer ? " filled" : ""}${slot.danger ? " danger" : ""}`}
      data-slot={at + 1}
      data-key={key}
      data-opens={slot.act.do === "layer" ? slot.act.layer : slot.confirm ? "confirm" : undefined}
      disabled={off}
      aria-label={`${slot.label}, ${consequence}`}
      aria-busy={busy}
      aria-keyshortcuts={slot.keys && SHORTCUTS[slot.keys]}
      title={consequence}
      onClick={act}
    >
      <Icon name={slot.glyph} />
      <span className="label">
        {slot.label}
        {slot.keys && <kbd aria-hidden="true">{slot.keys}</kbd>}
      </span>
      <span className="cost">{consequence}</span>
    </Toolbar.Button>
  );
}

function perform(slot: Slot, run: RunSheet): void {
  if (slot.confirm) return set({ layer: "confirm" });
  act(slot.act, slot.label, run);
}

export function act(what: Act, label: string, run: RunSheet): void {
  switch (what.do) {
    case "verb":
      void press(run, what.verb, { ...what.body, ...expected(run, what.verb) }, label);
      return;
    case "layer":
      return set({ layer: state().layer === what.layer ? "none" : what.layer });
    case "review":
      return review();
    case "bring back":
      void bringBack(run.thread, what.todo);
      return;
    case "fork":
      void fork(run, what.at);
      return;
    case "result":
      return set({ result: run.run });
    case "new run":
      if (what.agent) keepDraft("agent", what.agent);
      return go(".");
    case "close":
      return go(".");
  }
}

/** Stopping is never refused for being late; what goes on or is undone must be what the person has looked at. */
function expected(run: RunSheet, verb: string): Record<string, unknown> {
  return verb === "undo" || verb === "recover" ? expecting(run) : {};
}

function review(): void {
  set({ tab: "steps" });
  requestAnimationFrame(() => {
    const card = document.querySelector<HTMLElement>(".card-title");
    card?.scrollIntoView({ block: "center" });
    card?.focus({ preventScroll: true });
  });
}

/** Presses from before the line was lost that are too old to be sent unasked. */
function PressAsks({ run }: { run: RunSheet }) {
  const asks = useApp((app) => app.asks);
  const mine = asks.filter((each) => each.run === run.run);
  if (mine.length === 0) return null;
  return mine.map((each) => <BarLayer key={each.key} layer="press" run={run} slots={[]} asked={each} />);
}

