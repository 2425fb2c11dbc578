/** Talk to the agent: hands-free, or while a key is held down. What was heard is shown, never guessed. */
import { useEffect, useRef, useState } from "react";
import { Call } from "./call";
import { after, floorInWords, NOTHING_YET, troubleInWords, type Mode } from "./talk";
import "./voice.css";

const LINE = { off: "", opening: "Opening the line.", on: "The line is open." };

export default function Talking({ thread }: { thread: string }) {
  const call = useRef<Call | null>(null);
  const meter = useRef<HTMLMeterElement>(null);
  const [on, setOn] = useState<"off" | "opening" | "on">("off");
  const [mode, setMode] = useState<Mode>("hands-free");
  const [shown, setShown] = useState(NOTHING_YET);
  useEffect(() => () => call.current?.hangUp(), []); // also one that is only being opened
  const begin = async () => {
    setOn("opening");
    setShown(NOTHING_YET);
    const mine = new Call(thread, mode, {
      said: (message) => setShown((before) => after(before, message)),
      level: (level) => meter.current && (meter.current.value = Math.min(1, level * 4)),
      over: (why) => {
        call.current = null;
        setOn("off");
        if (why) setShown((before) => ({ ...before, trouble: before.trouble || why }));
      },
    });
    call.current = mine;
    try {
      await mine.open();
      if (call.current === mine) setOn("on");
    } catch (error) {
      if (call.current !== mine) return; // hung up before that, perhaps to call again
      call.current = null;
      setOn("off");
      setShown({ ...NOTHING_YET, trouble: error instanceof Error ? error.message : String(error) });
    }
  };
  const choose = (chosen: Mode) => {
    setMode(chosen);
    call.current?.choose(chosen);
  };
  const ways = <Ways mode={mode} choose={choose} live={on === "on"} press={(down) => call.current?.press(down)} />;
  return (
    <section className="voice" aria-label="Voice" data-floor={on === "on" ? shown.floor : "off"}>
      <div className="voice-row">
        <button type="button" className="voice-toggle" data-on={on !== "off"} onClick={() => (on === "off" ? void begin() : call.current?.hangUp())}>
          <Microphone />
          {on === "off" ? "Talk" : "Hang up"}
        </button>
        {on === "off" && ways /* beside it: it takes no room of the thread */}
        {on === "opening" && <span className="voice-floor">Opening…</span>}
        {on === "on" && (
          <>
            <span className="voice-floor">
              {floorInWords(shown.floor, mode)}
              {shown.with && `, with ${shown.with}`}
            </span>
            <meter ref={meter} className="voice-level" min={0} max={1} aria-label="How loud you are" />
          </>
        )}
      </div>
      {/* of the line alone: who speaks when is heard, and a screen reader that told it would talk over both */}
      <p className="hidden-words" role="status">
        {LINE[on]}
      </p>
      {on !== "off" && ways}
      {on === "on" && (shown.heard || shown.outcome) && (
        <p className="voice-heard">
          {shown.outcome}
          {shown.heard && <q>{shown.heard}</q>}
        </p>
      )}
      {troubleInWords(shown) && (
        <p className="voice-trouble" role="alert">
          {troubleInWords(shown)}
        </p>
      )}
    </section>
  );
}

type WaysProps = { mode: Mode; choose: (mode: Mode) => void; live: boolean; press: (down: boolean) => void };

const HOLDS: ReadonlySet<string> = new Set([" ", "Enter"]); // as every button

function Ways({ mode, choose, live, press }: WaysProps) {
  const release = () => press(false);
  useEffect(() => {
    window.addEventListener("blur", release); // a key that goes up elsewhere is not told to us
    return () => window.removeEventListener("blur", release);
  });
  return (
    <div className="voice-row">
      <div className="voice-row" role="radiogroup" aria-label="How to talk">
        <label>
          <input type="radio" name="voice-mode" checked={mode === "hands-free"} onChange={() => choose("hands-free")} /> Hands-free
        </label>
        <label>
          <input type="radio" name="voice-mode" checked={mode === "push"} onChange={() => choose("push")} /> Push to talk
        </label>
      </div>
      {live && mode === "push" && (
        <button
          type="button"
          className="voice-push"
          onPointerDown={() => press(true)}
          onPointerUp={release}
          onPointerLeave={release}
          onPointerCancel={release}
          onBlur={release}
          onContextMenu={(event) => event.preventDefault() /* a finger that rests on it holds it, and wants no menu */}
          onKeyDown={(event) => HOLDS.has(event.key) && !event.repeat && press(true)}
          onKeyUp={(event) => HOLDS.has(event.key) && release()}
        >
          Hold to talk
        </button>
      )}
    </div>
  );
}

const Microphone = () => (
  <svg width={20} height={20} viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth={1.7} strokeLinecap="round" aria-hidden="true" focusable="false">
    <path d="M10 12.5a2.8 2.8 0 0 0 2.8-2.8V5.8a2.8 2.8 0 0 0-5.6 0v3.9a2.8 2.8 0 0 0 2.8 2.8ZM4.8 9.8a5.2 5.2 0 0 0 10.4 0M10 15v2.5" />
  </svg>
);
