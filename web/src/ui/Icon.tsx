/** 20-pixel icons drawn with one line. They repeat what a word says, so they are silent for screen readers. */
import type { ReactNode } from "react";

const line = { fill: "none", stroke: "currentColor", strokeLinecap: "round", strokeLinejoin: "round" } as const;

const SHAPES = {
  done: <path {...line} strokeWidth={1.8} d="M5 10.4 8.4 13.8 15 6.8" />,
  run: (
    <g {...line} strokeWidth={2}>
      <circle cx={10} cy={10} r={6.5} opacity={0.22} />
      <path d="M10 3.5A6.5 6.5 0 0 1 16.5 10" />
    </g>
  ),
  queued: <circle {...line} strokeWidth={1.5} cx={10} cy={10} r={5.2} strokeDasharray="2.2 2.2" strokeLinecap="butt" />,
  pausing: (
    <g {...line} strokeWidth={1.8}>
      <path d="M8 7.2v5.6M12 7.2v5.6" />
      <circle cx={10} cy={10} r={7.4} strokeWidth={1.4} strokeDasharray="5.8 2" strokeLinecap="butt" />
    </g>
  ),
  pause: <path {...line} strokeWidth={2} d="M7 5v10M13 5v10" />,
  play: <path fill="currentColor" d="M6.5 4.6v10.8a.7.7 0 0 0 1.06.6l8.6-5.4a.7.7 0 0 0 0-1.2l-8.6-5.4a.7.7 0 0 0-1.06.6Z" />,
  redirect: <path {...line} strokeWidth={1.7} d="M4 16V11a3 3 0 0 1 3-3h9M12.5 4.5 16 8l-3.5 3.5" />,
  cancel: <path {...line} strokeWidth={1.8} d="m5.5 5.5 9 9M14.5 5.5l-9 9" />,
  cancelling: (
    <g {...line} strokeWidth={1.7}>
      <path d="m7.6 7.6 4.8 4.8M12.4 7.6l-4.8 4.8" />
      <circle cx={10} cy={10} r={7.4} strokeWidth={1.4} strokeDasharray="5.8 2" strokeLinecap="butt" />
    </g>
  ),
  cancelled: <path {...line} strokeWidth={1.7} d="M10 16.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM5.5 14.5l9-9" />,
  ask: (
    <g {...line} strokeWidth={1.7}>
      <circle cx={10} cy={10} r={7} />
      <path d="M8 8.2c.2-1.2 1-1.8 2-1.8 1.2 0 2 .8 2 1.8 0 1.4-2 1.6-2 3M10 13.7v.1" />
    </g>
  ),
  undo: <path {...line} strokeWidth={1.7} d="M7.5 5 4.5 8l3 3M4.5 8h7a4 4 0 0 1 0 8H9" />,
  up: <path {...line} strokeWidth={1.9} d="M10 15.5v-11M5.5 9 10 4.5 14.5 9" />,
  stop: <path {...line} strokeWidth={1.7} d="M7.1 3.5h5.8l3.6 3.6v5.8l-3.6 3.6H7.1l-3.6-3.6V7.1z" />,
  plus: <path {...line} strokeWidth={1.8} d="M10 4.5v11M4.5 10h11" />,
  menu: <path {...line} strokeWidth={1.7} d="M3.5 6.5h13M3.5 13h13" />,
  skip: <path {...line} strokeWidth={1.8} d="M5.5 10h9" />,
  open: <path {...line} strokeWidth={1.7} d="M11.5 4.5h4v4M15.5 4.5 9 11M8 5.5H5.5a1 1 0 0 0-1 1v8a1 1 0 0 0 1 1h8a1 1 0 0 0 1-1V12" />,
  raise: <path {...line} strokeWidth={1.8} d="M4.5 4.5h11M10 16V8M6.5 11.2 10 7.7l3.5 3.5" />,
  hand: <path {...line} strokeWidth={1.7} d="M10 10.2a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM4.5 16.2c.6-2.6 2.8-3.9 5.5-3.9s4.9 1.3 5.5 3.9" />,
  lost: <path {...line} strokeWidth={1.7} d="M3.5 8.2a9.5 9.5 0 0 1 13 0M6 11a5.9 5.9 0 0 1 8 0M10 14.6v.1M4 16 16 4" />,
  undriven: <path {...line} strokeWidth={1.7} d="M3 10h4.2M12.8 10H17M7.2 6.4v7.2M12.8 6.4v7.2" />,
  search: <path {...line} strokeWidth={1.7} d="M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM13 13l3.5 3.5" />,
  settings: <path {...line} strokeWidth={1.6} d="M4 6.5h6M14 6.5h2M4 13.5h2M10 13.5h6M12 4.7v3.6M8 11.7v3.6" />,
  chevron: <path {...line} strokeWidth={1.6} d="m7.5 8.5 2.5 2.5 2.5-2.5" />,
  timeline: <path {...line} strokeWidth={1.7} d="M4 6h5M7 10h6M10 14h6" />,
  list: <path {...line} strokeWidth={1.7} d="M8 5.5h8M8 10h8M8 14.5h8M4.5 5.5v.1M4.5 10v.1M4.5 14.5v.1" />,
  later: <path {...line} strokeWidth={1.7} d="M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM10 6.5V10l2.5 1.6" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, size = 20 }: { name: IconName; size?: number }) {
  return (
    <svg className={`icon icon-${name}`} width={size} height={size} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      {SHAPES[name]}
    </svg>
  );
}
