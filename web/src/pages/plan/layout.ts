// Computes the layout of boxes, groups and arrows. Slow for large graphs, so a worker runs it (layout.worker.ts).

import { graphlib, layout } from "@dagrejs/dagre";
import { BOX, type Picture } from "./graph";

export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Laid {
  width: number;
  height: number;
  /** Boxes and groups by id; x and y are the upper left corner. */
  places: Record<string, Place>;
  arrows: { from: string; to: string; points: { x: number; y: number }[] }[];
}

export function laidOut(picture: Picture): Laid {
  const graph = new graphlib.Graph({ compound: true });
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 56, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const group of picture.groups) graph.setNode(group.id, {});
  for (const box of picture.boxes) graph.setNode(box.id, { ...BOX });
  for (const group of picture.groups) if (group.group) graph.setParent(group.id, group.group);
  for (const box of picture.boxes) if (box.group) graph.setParent(box.id, box.group);
  for (const arrow of picture.arrows) graph.setEdge(arrow.from, arrow.to);
  layout(graph);
  const places: Record<string, Place> = {};
  for (const id of graph.nodes()) {
    const { x, y, width, height } = graph.node(id);
    places[id] = { x: x - width / 2, y: y - height / 2, width, height };
  }
  const arrows = graph.edges().map((edge) => ({ from: edge.v, to: edge.w, points: graph.edge(edge).points ?? [] }));
  const { width = 0, height = 0 } = graph.graph();
  return { width, height, places, arrows };
}
