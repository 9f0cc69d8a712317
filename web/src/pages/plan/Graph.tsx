// The dependency graph: a box for each task, inside its parent's box, and an arrow from each need to the task.

import { select } from "d3-selection";
import { type ZoomBehavior, zoom, zoomIdentity } from "d3-zoom";
import { computed, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { Address } from "../../parts/Address";
import { signOf, toneOf } from "../../parts/Status";
import { go, linkTo, opensElsewhere } from "../../routes";
import { plural } from "../../words/amounts";
import { cut, nameOf, oneLine, stateOf, text } from "../../words/objects";
import { BOX, type Box, type Picture, pictured, shapeOf } from "./graph";
import type { Laid, Place } from "./layout";
import { neededBy, tasks } from "./state";

type Point = { x: number; y: number };
const LEGIBLE = 0.5; // Smaller boxes cannot be read.

const opened = signal<ReadonlySet<string>>(new Set());
const folded = signal<ReadonlySet<string>>(new Set());
const chosenTask = signal("");
const picture = computed(() => pictured(tasks.value, opened.value, folded.value, chosenTask.value));

export default function Graph({ chosen }: { chosen: string }) {
  chosenTask.value = chosen;
  const wanted = picture.value;
  const laid = useLayout(wanted);
  const frame = useRef<SVGSVGElement>(null);
  const [shift, setShift] = useState(zoomIdentity);
  const zooming = useRef<ZoomBehavior<SVGSVGElement, unknown>>(null);

  useEffect(() => {
    if (frame.current === null) return;
    const made = zoom<SVGSVGElement, unknown>()
      .scaleExtent([0.05, 2.5])
      .on("zoom", (event: { transform: typeof zoomIdentity }) => setShift(event.transform));
    zooming.current = made;
    select(frame.current).call(made).on("dblclick.zoom", null);
  }, []);

  const fit = (): void => {
    const element = frame.current;
    if (element === null || laid === null || zooming.current === null) return;
    const { clientWidth: width, clientHeight: height } = element;
    // If the whole graph would be too small to read, show the selected box or the first one.
    const scale = Math.max(LEGIBLE, Math.min(1, width / laid.width, height / laid.height));
    const about = laid.places[chosen] ?? laid.places[wanted.boxes[0]?.id ?? ""];
    const x = placed(width, laid.width * scale, (about?.x ?? 0) * scale + (BOX.width / 2) * scale);
    const y = placed(height, laid.height * scale, (about?.y ?? 0) * scale + (BOX.height / 2) * scale);
    select(element).call(zooming.current.transform, zoomIdentity.translate(x, y).scale(scale));
  };
  const grow = (factor: number): void => {
    if (frame.current !== null && zooming.current !== null) select(frame.current).call(zooming.current.scaleBy, factor);
  };
  // Fit after each new layout only: a changed state must not move the graph.
  useEffect(fit, [laid]);

  const total = tasks.value.size - 1;
  return (
    <div class="graph">
      <svg ref={frame} role="group" aria-label={`Dependency graph of ${total} tasks. The same content follows as text.`}>
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path d="M 0 0 L 8 4 L 0 8 z" fill="context-stroke" />
          </marker>
        </defs>
        {laid !== null && (
          <g transform={shift.toString()}>
            <Drawing picture={wanted} laid={laid} chosen={chosen} />
          </g>
        )}
      </svg>
      <div class="tools">
        <div class="group" role="group" aria-label="Zoom">
          <button type="button" aria-label="Zoom out" onClick={() => grow(0.8)}>
            −
          </button>
          <button type="button" aria-label="Zoom in" onClick={() => grow(1.25)}>
            +
          </button>
          <button type="button" onClick={fit}>
            Fit
          </button>
        </div>
        {wanted.boxes.some((box) => box.kind !== "task") && <span class="quiet">Click a group to open it.</span>}
      </div>
      <AsText picture={wanted} />
    </div>
  );
}

/** Returns the offset of a graph of `size`: centred in the frame, or centred on `about` if it is larger. */
function placed(frame: number, size: number, about: number): number {
  return size <= frame ? (frame - size) / 2 : Math.min(0, Math.max(frame - size, frame / 2 - about));
}

/** Returns the newest layout from the worker; the previous one until it is ready. */
function useLayout(wanted: Picture): Laid | null {
  const [laid, setLaid] = useState<Laid | null>(null);
  const worker = useRef<Worker>(null);
  const job = useRef(0);
  useEffect(() => {
    const created = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    created.onmessage = (event: MessageEvent<{ job: number; laid: Laid }>) => {
      if (event.data.job === job.current) setLaid(event.data.laid);
    };
    worker.current = created;
    return () => created.terminate();
  }, []);
  useEffect(() => {
    job.current += 1;
    worker.current?.postMessage({ job: job.current, picture: wanted });
  }, [shapeOf(wanted)]);
  return laid;
}

function Drawing({ picture, laid, chosen }: { picture: Picture; laid: Laid; chosen: string }) {
  return (
    <>
      {picture.groups.map(({ id }) => {
        const place = laid.places[id];
        if (place === undefined) return null;
        return (
          <g key={id}>
            <rect class="cluster" x={place.x} y={place.y} width={place.width} height={place.height} rx={6} />
            <a href={linkTo(id)} onClick={(event) => act(event, () => fold(id))} aria-label={`Close group ${id}`}>
              <text class="small" x={place.x + 8} y={place.y + 14}>
                ▾ {nameOf(id)}
              </text>
            </a>
          </g>
        );
      })}
      {laid.arrows.map(({ from, to, points }) => (
        <path key={`${from} ${to}`} class={from === chosen || to === chosen ? "arrow near" : "arrow"} d={curve(points, laid.places[from], laid.places[to])} marker-end="url(#tip)" />
      ))}
      {picture.boxes.map((box) => {
        const place = laid.places[box.id];
        return place && <BoxDrawn key={box.id} box={box} x={place.x} y={place.y} isChosen={box.id === chosen} />;
      })}
    </>
  );
}

function BoxDrawn({ box, x, y, isChosen }: { box: Box; x: number; y: number; isChosen: boolean }) {
  const { width, height } = BOX;
  if (box.kind === "rest") {
    return (
      <g data-tone="idle">
        <rect class="box" x={x} y={y} width={width} height={height} rx={4} stroke-dasharray="4 3" />
        <text x={x + 12} y={y + 24}>
          {`… ${box.count.toLocaleString("en")} more`}
        </text>
      </g>
    );
  }
  const task = tasks.value.get(box.id);
  const state = task === undefined ? "new" : stateOf(task);
  const goal = oneLine(text(task?.spec.goal));
  const contents = box.kind === "folded" ? `, group of ${plural(box.count, "task")}` : "";
  const onClick = (event: MouseEvent): void => act(event, () => (box.kind === "folded" ? open(box.id) : go("plan", box.id)));
  return (
    <a href={linkTo(box.id)} data-tone={toneOf(state)} aria-current={isChosen ? "true" : undefined} onClick={onClick}>
      <title>{`${box.id}, ${state}${contents || `: ${goal}`}`}</title>
      <rect class="box" x={x} y={y} width={width} height={height} rx={4} />
      <text class="mark sign" aria-hidden="true" x={x + 9} y={y + 17}>
        {signOf(state)}
      </text>
      <text x={x + 26} y={y + 17}>
        {cut(nameOf(box.id), 21)}
      </text>
      <text class="small" x={x + 26} y={y + 32}>
        {cut(box.kind === "folded" ? `${state} · ▸ ${box.count.toLocaleString("en")} tasks` : [state, goal].filter(Boolean).join(" · "), 27)}
      </text>
    </a>
  );
}

/** Handles a plain click; a click with a modifier key opens the link as usual. */
function act(event: MouseEvent, action: () => void): void {
  if (opensElsewhere(event)) return;
  event.preventDefault();
  action();
}

function open(group: string): void {
  opened.value = new Set(opened.value).add(group);
  folded.value = without(folded.value, group);
}

function fold(group: string): void {
  folded.value = new Set(folded.value).add(group);
  opened.value = without(opened.value, group);
}

function without(set: ReadonlySet<string>, one: string): ReadonlySet<string> {
  return new Set([...set].filter((other) => other !== one));
}

/** Returns a path from the right side of one box to the left side of the other, through the points of the layout. */
function curve(points: readonly Point[], from: Place | undefined, to: Place | undefined): string {
  if (from === undefined || to === undefined) return "";
  const start = { x: from.x + from.width, y: from.y + from.height / 2 };
  const end = { x: to.x, y: to.y + to.height / 2 };
  const between = points.length > 3 ? points.slice(1, -1) : [];
  let path = `M ${start.x} ${start.y}`;
  let last: Point = start;
  for (const point of [...between, end]) {
    const middle = (last.x + point.x) / 2;
    path += ` C ${middle} ${last.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    last = point;
  }
  return path;
}

/** The graph as a list: every drawn task with its needs and the tasks that need it. */
function AsText({ picture }: { picture: Picture }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As text</summary>
      {isOpen && (
        <ul class="bare">
          {picture.boxes.map((box) => {
            if (box.kind === "rest") return <li key={box.id}>… and {box.count} more</li>;
            const needs = (tasks.value.get(box.id)?.spec.needs as string[] | undefined) ?? [];
            const needed = neededBy.value.get(box.id) ?? [];
            return (
              <li key={box.id}>
                <Address address={box.id} state />
                {box.kind === "folded" && `, group of ${plural(box.count, "task")}`}
                {needs.length > 0 && <> · needs {needs.join(", ")}</>}
                {needed.length > 0 && <> · needed by {needed.slice(0, 12).join(", ")}{needed.length > 12 && ` and ${needed.length - 12} more`}</>}
              </li>
            );
          })}
        </ul>
      )}
    </details>
  );
}
