// The plots of a report as SVG. A plot is drawn at its displayed width, so text keeps its size on a narrow screen. Models
// differ by the shape of their mark, not only by its colour. The table next to each plot has the same figures.

import { scaleLinear } from "d3-scale";
import { line, symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare, symbolTriangle, type SymbolType } from "d3-shape";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Column, Interval, Pair, Section } from "./types";

const ROW = 42; // A text, and its line below.
const HEAD = 24;
const AXIS = 24;
const FIELD = 250;
const MARGIN = 8;
const SHAPES: Record<string, SymbolType> = {
  tested: symbolCircle,
  oracle: symbolTriangle,
  nop: symbolSquare,
  cheat: symbolCross,
  mutant: symbolDiamond,
};
const segment = line<[number, number]>();

interface PlotProps {
  section: Section;
  id: string;
}

/** Pass rates with their intervals. The rates of `nop` and `oracle` are lines across all rows. */
export function RatePlot({ section, id }: PlotProps) {
  const columns = section.columns.filter((one) => one.rate !== null);
  const height = HEAD + ROW * columns.length + AXIS;
  const description = columns.map((one) => `${one.label} ${one.words}`).join("; ");
  return (
    <Plot id={id} height={height} title={`Pass rates of ${section.suite}`} description={description}>
      {(width) => {
        const x = scaleLinear([0, 1], [MARGIN, width - MARGIN]);
        return (
          <>
            <Axis ticks={x.ticks(4).map((share) => ({ x: x(share), words: `${Math.round(share * 100)} %` }))} y={height - 6} width={width} />
            <Across x={section.nop === null ? null : x(section.nop)} words="nop" height={height} width={width} />
            <Across x={section.oracle === null ? null : x(section.oracle)} words="oracle" height={height} width={width} />
            {columns.map((one, at) => (
              <Row key={one.label} name={one.label} words={one.words} y={HEAD + ROW * at} width={width} kind={one.kind}>
                <Bar interval={one.interval} at={one.rate ?? 0} y={HEAD + ROW * at + 26} x={x} kind={one.kind} />
              </Row>
            ))}
          </>
        );
      }}
    </Plot>
  );
}

/** The difference in pass rate of two models, with its interval. Left of the zero line, the second model is better. */
export function PairPlot({ section, id }: PlotProps) {
  const pairs = section.pairs.filter((one) => one.cases > 0);
  if (pairs.length === 0) return null;
  const height = HEAD + ROW * pairs.length + AXIS;
  const description = pairs.map((one) => `${one.a} and ${one.b}: ${one.words}, ${one.sentence}`).join("; ");
  return (
    <Plot id={id} height={height} title={`Pairs of models in ${section.suite}`} description={description}>
      {(width) => {
        const x = scaleLinear([-1, 1], [MARGIN, width - MARGIN]);
        return (
          <>
            <text x={MARGIN} y={13} class="small">
              second is better
            </text>
            <text x={width - MARGIN} y={13} class="small end">
              first is better
            </text>
            <Axis ticks={x.ticks(4).map((share) => ({ x: x(share), words: `${share > 0 ? "+" : ""}${Math.round(share * 100)}` }))} y={height - 6} width={width} />
            <path d={segment([[x(0), HEAD - 4], [x(0), height - AXIS + 4]]) ?? ""} class="zero" />
            {pairs.map((one, at) => (
              <PairRow key={`${one.a} ${one.b}`} pair={one} y={HEAD + ROW * at} width={width} x={x} />
            ))}
          </>
        );
      }}
    </Plot>
  );
}

function PairRow({ pair, y, width, x }: { pair: Pair; y: number; width: number; x: (share: number) => number }) {
  const kind = pair.is_distinguishable ? "tested" : "nop";
  return (
    <Row name={`${pair.a} / ${pair.b}`} words={pair.words} y={y} width={width} kind={kind}>
      <Bar interval={pair.interval} at={pair.difference ?? 0} y={y + 26} x={x} kind={kind} />
    </Row>
  );
}

/** The median cost of a trial against the pass rate. Costs are in tokens if no model costs money. */
export function CostPlot({ section, id }: PlotProps) {
  const isPaid = section.columns.some((one) => (one.median_usd ?? 0) > 0);
  const amount = (one: Column): number | null => (isPaid ? one.median_usd : one.median_tokens);
  const spots = section.columns.filter((one) => one.rate !== null && amount(one) !== null);
  const most = Math.max(...spots.map((one) => amount(one) ?? 0));
  const words = (one: Column): string => `${one.label} ${isPaid ? one.usd_words : `${one.tokens_words} tokens`}, ${one.words}`;
  const height = FIELD + AXIS;
  const unit = isPaid ? "dollars" : "tokens";
  return (
    <Plot id={id} height={height} title={`Cost against quality in ${section.suite}`} description={`Median of ${unit} per trial. ${spots.map(words).join("; ")}`}>
      {(width) => {
        const x = scaleLinear([0, most], [48, width - 40]).nice(4);
        const y = scaleLinear([0, 1], [FIELD - 8, 18]);
        return (
          <>
            {y.ticks(4).map((share) => (
              <g key={share}>
                <path d={segment([[0, y(share)], [width, y(share)]]) ?? ""} class="track" />
                <text x={0} y={y(share) - 3} class="small">
                  {Math.round(share * 100)} %
                </text>
              </g>
            ))}
            <Axis ticks={x.ticks(width < 420 ? 2 : 4).map((value) => ({ x: x(value), words: isPaid ? `$${x.tickFormat(4)(value)}` : x.tickFormat(4, "~s")(value) }))} y={height - 6} width={width} />
            {spots.map((one) => (
              <Spot key={one.label} column={one} x={x(amount(one) ?? 0)} y={y} words={words(one)} width={width} />
            ))}
          </>
        );
      }}
    </Plot>
  );
}

function Spot({ column, x, y, words, width }: { column: Column; x: number; y: (share: number) => number; words: string; width: number }) {
  const isRight = x > width * 0.65;
  return (
    <g class={`mark ${column.kind}`}>
      <title>{words}</title>
      {column.interval && <path d={segment([[x, y(column.interval[0])], [x, y(column.interval[1])]]) ?? ""} class="interval thin" />}
      <Mark kind={column.kind} x={x} y={y(column.rate ?? 0)} size={90} />
      <text x={x + (isRight ? -10 : 10)} y={y(column.rate ?? 0) - 8} class={isRight ? "small end" : "small"}>
        {cut(column.label, width, 0.4)}
      </text>
    </g>
  );
}

/** A row with a name and a text, and a line below it for `children`. */
function Row({ name, words, y, width, kind, children }: { name: string; words: string; y: number; width: number; kind: string; children: ComponentChildren }) {
  return (
    <g class={`mark ${kind}`}>
      <title>{`${name}: ${words}`}</title>
      <text x={MARGIN} y={y + 14}>
        {cut(name, width, 0.45)}
      </text>
      <text x={width - MARGIN} y={y + 14} class="small end">
        {width < 380 ? words.split(" (")[0]?.split(", ")[0] : words}
      </text>
      <path d={segment([[MARGIN, y + 26], [width - MARGIN, y + 26]]) ?? ""} class="track" />
      {children}
    </g>
  );
}

function Bar({ interval, at, y, x, kind }: { interval: Interval; at: number; y: number; x: (share: number) => number; kind: string }) {
  return (
    <>
      {interval && (
        <path
          class="interval"
          d={[[[x(interval[0]), y], [x(interval[1]), y]], [[x(interval[0]), y - 5], [x(interval[0]), y + 5]], [[x(interval[1]), y - 5], [x(interval[1]), y + 5]]]
            .map((points) => segment(points as [number, number][]))
            .join("")}
        />
      )}
      <Mark kind={kind} x={x(at)} y={y} size={70} />
    </>
  );
}

function Mark({ kind, x, y, size }: { kind: string; x: number; y: number; size: number }) {
  return <path class="dot" d={symbol(SHAPES[kind] ?? symbolCircle, size)() ?? ""} transform={`translate(${x},${y})`} />;
}

function Across({ x, words, height, width }: { x: number | null; words: string; height: number; width: number }) {
  if (x === null) return null;
  return (
    <g class="across">
      <path d={segment([[x, HEAD - 6], [x, height - AXIS + 4]]) ?? ""} />
      <text x={x} y={13} class={x > width / 2 ? "small end" : "small"}>
        {words}
      </text>
    </g>
  );
}

function Axis({ ticks, y, width }: { ticks: readonly { x: number; words: string }[]; y: number; width: number }) {
  return (
    <g class="axis">
      {ticks.map((tick) => (
        <text key={tick.words} x={tick.x} y={y} class={`small ${tick.x < 24 ? "" : tick.x > width - 24 ? "end" : "middle"}`}>
          {tick.words}
        </text>
      ))}
    </g>
  );
}

/** An SVG with the width of its container, and a title and description for screen readers. */
function Plot({ id, height, title, description, children }: { id: string; height: number; title: string; description: string; children: (width: number) => ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = (): void => setWidth(element.clientWidth);
    look();
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  return (
    <div class="plot" ref={box}>
      <svg role="img" aria-labelledby={`${id}-title ${id}-about`} width="100%" height={height}>
        <title id={`${id}-title`}>{title}</title>
        <desc id={`${id}-about`}>{description}</desc>
        {width > 0 && children(width)}
      </svg>
    </div>
  );
}

/** Cuts a name to a share of the plot's width. The table has the full name. */
function cut(words: string, width: number, share: number): string {
  const chars = Math.max(8, Math.floor((width * share) / 7.5));
  return words.length > chars ? `${words.slice(0, chars - 1)}…` : words;
}
