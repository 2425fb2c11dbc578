/** The run over time, to look at rather than to read; the same in words beneath. */
import { useLayoutEffect, useMemo, useRef, useState } from "react";
import { useNow } from "../clock";
import { axisOf, happened, restsOf, spansOf, ticks, type Axis, type Rest, type Span } from "../model/timeline";
import { ENDED, type RunSheet } from "../model/types";
import { spending } from "../model/meters";
import { clock, count, hour, money, oneLine } from "../model/words";

const NAMED_MAX = 40; // more steps than that have no row and no name of their own
const ROW = 24;
const LANE = 14;
const SPEND = 46;
const DOTS = 10; // where the marks hang
const RESTS = 18; // where a rest begins; how long it was is written under that
const TOP = 38;
const LETTER = 7.2; // pixels of a figure in the axis
const RESTED_LETTER = 6.3;
const SHORTEST = 3; // pixels of a step that took no time

const TONES: Record<string, string> = {
  done: "done", kept: "done", running: "live", retrying: "warn", waiting: "warn", paused: "warn", failed: "bad", undo_failed: "bad", lost: "bad",
};

export default function Timeline({ run }: { run: RunSheet }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const now = useNow();
  const until = run.ended_at ?? run.undriven_since ?? (ENDED.has(run.phase) ? run.updated_at : now);
  const rests = useMemo(() => restsOf(run, until), [run, until]);
  const axis = useMemo(() => axisOf(run, until, rests), [run, until, rests]);
  const spans = useMemo(() => spansOf(run, until), [run, until]);
  return (
    <div className="timeline" ref={box}>
      {width > 0 && <Picture run={run} width={width} axis={axis} rests={rests} spans={spans} />}
      <Words run={run} />
    </div>
  );
}

function useWidth(box: React.RefObject<HTMLDivElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!box.current) return;
    const sized = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    sized.observe(box.current);
    return () => sized.disconnect();
  }, []);
  return width;
}

interface Drawn { run: RunSheet; width: number; axis: Axis; rests: Rest[]; spans: Span[] }

function Picture({ run, width, axis, rests, spans }: Drawn) {
  const named = spans.length <= NAMED_MAX;
  const narrow = width < 520;
  const left = named && !narrow ? Math.min(220, width * 0.34) : 0;
  const row = named ? (narrow ? ROW + 14 : ROW) : LANE;
  const rows = named ? spans.length : Math.max(1, ...spans.map((span) => span.lane + 1));
  const bottom = TOP + rows * row + 8;
  const spent = run.spend.some(([, usd, tokens]) => usd > 0 || tokens > 0);
  const height = bottom + (spent ? SPEND : 0) + 22;
  const x0 = (share: number) => left + share * (width - left);
  const x = (time: number) => x0(axis.at(time));
  return (
    <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={summary(run, axis, rests)}>
      {ticks(axis, Math.max(3, Math.floor((width - left) / 90))).map((tick) => (
        <g key={tick.text}>
          <line className="grid" x1={x0(tick.at)} x2={x0(tick.at)} y1={RESTS} y2={height - 18} />
          {x0(tick.at) + 3 + tick.text.length * LETTER <= width && (
            <text x={x0(tick.at) + 3} y={height - 5} className="mono">
              {tick.text}
            </text>
          )}
        </g>
      ))}
      {rests.map((rest) => (
        <Resting key={rest.from} rest={rest} x={x} bottom={height - 18} />
      ))}
      <Marks run={run} x={x} bottom={height - 18} />
      {rests.map((rest) => (
        <Rested key={rest.from} rest={rest} x={x} />
      ))}
      {spans.map((span, at) => (
        <StepBar key={span.step.id} span={span} x={x} y={TOP + (named ? at : span.lane) * row} row={row} left={left} named={named} narrow={narrow} width={width} />
      ))}
      {spent && <Spend run={run} x={x} y={bottom} left={left} width={width} until={axis.to} />}
    </svg>
  );
}

interface RestProps { rest: Rest; x: (time: number) => number }

function Resting({ rest, x, bottom }: RestProps & { bottom: number }) {
  const from = x(rest.from);
  return (
    <rect className="rest" x={from} y={RESTS} width={Math.max(1, x(rest.to) - from)} height={bottom - RESTS} rx={4}>
      <title>{`${rest.word}, ${clock(rest.to - rest.from)}`}</title>
    </rect>
  );
}

/** How long it rested, where there is room to say so; over the lines, not under them. */
function Rested({ rest, x }: RestProps) {
  const [from, to] = [x(rest.from), x(rest.to)];
  const long = clock(rest.to - rest.from);
  if (to - from < long.length * RESTED_LETTER || rest.to - rest.from < 1) return null;
  return (
    <text className="rested" x={(from + to) / 2} y={RESTS + 13} textAnchor="middle">
      {long}
    </text>
  );
}

interface BarProps { span: Span; x: (time: number) => number; y: number; row: number; left: number; named: boolean; narrow: boolean; width: number }

function StepBar({ span, x, y, row, left, named, narrow, width }: BarProps) {
  const { step } = span;
  const tone = TONES[step.status] ?? "calm";
  const from = Math.min(x(span.from ?? span.after), width - SHORTEST);
  const long = Math.max(SHORTEST, x(span.to) - from);
  const high = named ? 10 : LANE - 4;
  const top = narrow && named ? y + 18 : y + (row - high) / 2;
  const room = Math.floor((narrow ? width : left - 12) / 6.4);
  const name = oneLine(step.name);
  return (
    <g>
      <title>{`${span.number}. ${name}: ${step.word}${step.seconds ? `, ${clock(step.seconds)}` : ""}${step.usd ? `, ${money(step.usd)}` : ""}`}</title>
      {named && (
        <text className="name" x={0} y={narrow ? y + 12 : y + row / 2 + 4}>
          {name.length > room ? `${name.slice(0, room - 1)}…` : name}
        </text>
      )}
      {span.from === null ? (
        <>
          <rect className={`bar-${tone} soft`} x={from} y={top + high / 2 - 1} width={long} height={2} rx={1} />
          <rect className={`bar-${tone}`} x={from + long - SHORTEST} y={top} width={SHORTEST} height={high} rx={1.5} />
        </>
      ) : (
        <rect className={`bar-${tone}`} x={from} y={top} width={long} height={high} rx={Math.min(5, long / 2)} />
      )}
    </g>
  );
}

function Spend({ run, x, y, left, width, until }: { run: RunSheet; x: (time: number) => number; y: number; left: number; width: number; until: number }) {
  const inMoney = run.spend.some(([, usd]) => usd > 0);
  const points = run.spend.map(([at, usd, tokens]): [number, number] => [x(at), inMoney ? usd : tokens]);
  const last = points.at(-1);
  if (!last || last[1] === 0) return null;
  const cap = inMoney ? run.limits.usd : run.limits.tokens;
  const most = Math.max(last[1], cap && cap < last[1] * 4 ? cap : 0) * 1.1;
  const level = (value: number) => y + SPEND - (value / most) * (SPEND - 12);
  const line = [...points, [x(until), last[1]] as [number, number]];
  const path = line.map(([px, value], at) => (at === 0 ? `M${px} ${y + SPEND}V${level(value)}` : `H${px}V${level(value)}`)).join("");
  return (
    <g>
      <path className="spend-area" d={`${path}V${y + SPEND}Z`} />
      <path className="spend" d={path} />
      {cap != null && cap <= most && <line className="cap-line" x1={left} x2={width} y1={level(cap)} y2={level(cap)} />}
      <text x={0} y={y + SPEND - 4} className={left ? "" : "hidden-in-picture"}>
        {left ? `Spent ${inMoney ? spending(run.spent, run.limits) : count(last[1], "token")}` : ""}
      </text>
    </g>
  );
}

const LOUD: Record<string, string> = { cancel: "bad", kill: "bad", pause: "warn", question: "warn", cap: "warn", redirect: "", message: "" };

function Marks({ run, x, bottom }: { run: RunSheet; x: (time: number) => number; bottom: number }) {
  return run.marks
    .filter((mark) => mark.kind in LOUD)
    .map((mark, at) => (
      <g key={at}>
        <title>{[mark.text, mark.by].filter(Boolean).join(", ")}</title>
        <line className="mark" x1={x(mark.at)} x2={x(mark.at)} y1={DOTS} y2={bottom} />
        <circle className={`mark-dot ${LOUD[mark.kind]}`} cx={x(mark.at)} cy={DOTS} r={4} />
      </g>
    ));
}

function Words({ run }: { run: RunSheet }) {
  const lines = happened(run);
  if (lines.length === 0) return <p className="quiet">Nobody has interfered so far.</p>;
  return (
    <ol className="happened" aria-label="What happened">
      {lines.map((line, at) => (
        <li key={at}>
          <span className="mono">{hour(line.at)}</span>
          <span>{line.text}</span>
        </li>
      ))}
    </ol>
  );
}

function summary(run: RunSheet, axis: Axis, rests: Rest[]): string {
  const rested = rests.reduce((sum, rest) => sum + rest.to - rest.from, 0);
  const parts = [
    `Timeline: ${clock(axis.to - axis.from)} in all`,
    `${run.done} of ${run.steps.length} steps done`,
    rested > 0 ? `rested ${clock(rested)}` : "",
    `spent ${spending(run.spent, run.limits)}`,
  ];
  return parts.filter(Boolean).join(", ");
}
