// The graph of waits, from left to right: an arrow goes from a waiter to the holder. To screen readers it is an image,
// because the list next to it has the same content.

import dagre from "@dagrejs/dagre";
import { useMemo } from "preact/hooks";
import type { components } from "../../api-types";
import { cut } from "../../words/objects";

type Wait = components["schemas"]["Wait"];

const HEIGHT = 30;
const CHAR = 7.3;
const PAD = 12;

interface Node {
  id: string;
  label: string;
  x: number;
  y: number;
  width: number;
  isInCycle: boolean;
}

interface Edge {
  key: string;
  path: string;
  label: string;
  x: number;
  y: number;
  why: Wait["why"];
  isInCycle: boolean;
}

export default function WaitGraph({ waits, inCycle }: { waits: readonly Wait[]; inCycle: ReadonlySet<string> }) {
  const drawn = useMemo(() => layOut(waits, inCycle), [waits, inCycle]);
  const words = `${drawn.nodes.length} tasks and agents, ${drawn.edges.length} waits${inCycle.size > 0 ? ", with a deadlock" : ""}. The list below has the same content.`;
  return (
    <div class="wait-graph">
      <svg viewBox={`0 0 ${drawn.width} ${drawn.height}`} width={drawn.width} height={drawn.height} role="img" aria-label={`Graph of waits: ${words}`}>
        <defs>
          {["plain", "cycle"].map((name) => (
            <marker key={name} id={`arrow-${name}`} class={`arrow-${name}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
              <path d="M0 0 L8 4 L0 8 z" />
            </marker>
          ))}
        </defs>
        {drawn.edges.map((edge) => (
          <g key={edge.key} class="wait-edge" data-why={edge.why} data-cycle={edge.isInCycle ? "" : undefined}>
            <path d={edge.path} marker-end={`url(#arrow-${edge.isInCycle ? "cycle" : "plain"})`} />
            <text x={edge.x} y={edge.y - 6}>
              {edge.label}
            </text>
          </g>
        ))}
        {drawn.nodes.map((node) => (
          <g key={node.id} class="wait-node" data-cycle={node.isInCycle ? "" : undefined}>
            <rect x={node.x - node.width / 2} y={node.y - HEIGHT / 2} width={node.width} height={HEIGHT} rx="4" />
            <text x={node.x} y={node.y + 4}>
              {node.label}
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}

function layOut(waits: readonly Wait[], inCycle: ReadonlySet<string>): { nodes: Node[]; edges: Edge[]; width: number; height: number } {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 22, ranksep: 60, edgesep: 16, marginx: 8, marginy: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const owner of new Set(waits.flatMap((one) => [one.from, one.to]))) {
    const label = cut(owner, 34);
    graph.setNode(owner, { label, width: label.length * CHAR + 2 * PAD, height: HEIGHT });
  }
  waits.forEach((one, at) => {
    const label = one.lock ? cut(one.lock.replace(/^lock\//, ""), 28) : "child";
    graph.setEdge(one.from, one.to, { label, width: label.length * 6.4 + 8, height: 26, labelpos: "c", at }, String(at));
  });
  dagre.layout(graph);
  const nodes = graph.nodes().map((id): Node => {
    const node = graph.node(id) as unknown as { label: string; x: number; y: number; width: number };
    return { id, label: node.label, x: node.x, y: node.y, width: node.width, isInCycle: inCycle.has(id) };
  });
  const edges = graph.edges().map((id): Edge => {
    const edge = graph.edge(id) as unknown as { points: { x: number; y: number }[]; label: string; x: number; y: number; at: number };
    const wait = waits[edge.at] as Wait;
    return {
      key: String(edge.at),
      path: curve(edge.points),
      label: edge.label,
      x: edge.x,
      y: edge.y,
      why: wait.why,
      isInCycle: inCycle.has(wait.from) && inCycle.has(wait.to),
    };
  });
  const size = graph.graph() as { width?: number; height?: number };
  return { nodes, edges, width: Math.ceil(size.width ?? 0), height: Math.ceil(size.height ?? 0) };
}

/** Returns a smooth SVG path through the points. */
function curve(points: readonly { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  const parts = [`M${first.x} ${first.y}`];
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    if (next === undefined) parts.push(`L${point.x} ${point.y}`);
    else parts.push(`Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`);
  });
  return parts.join(" ");
}
