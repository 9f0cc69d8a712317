"""The tasks and containers of a plan as a drawing: text, Mermaid, DOT and SVG.

Mermaid, dot or SVG text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from planloop.schemas.canonical_json import JsonObject

ROW, COLUMN, BOX_WIDTH, BOX_HEIGHT, MARGIN = 56, 240, 200, 40, 20
LABEL_CHARS: Final = 26
ROOT: Final = "task/."
TaskGraph = Mapping[str, JsonObject]


def text_graph(specs: Mapping[str, JsonObject]) -> TaskGraph:
    """The tasks among the objects `specs`, with the containers as further boxes in those that they are for."""
    out = {address: dict(spec) for address, spec in specs.items() if address.startswith("task/")}
    for address, spec in specs.items():
        if address.startswith("container/"):
            made_from = str(spec["image"] or spec["rootfs"] or "built here")
            needs = [f"container/{name}" for name in spec["needs"]]
            out[address] = {"needs": needs, "goal": made_from, "children": []}
            home = f"task/{spec['task'] or '.'}"
            out[home]["children"] = [*out[home].get("children", ()), address]
    for address, spec in out.items():
        if address != ROOT:  # It is the picture itself; and no box is drawn to wait for what is in it.
            outside = [one for one in spec.get("containers", ()) if one in out and one not in spec["children"]]
            spec["needs"] = [*spec.get("needs", ()), *outside]
    return out


def mermaid_graph(plan: str, tasks: TaskGraph) -> str:
    """`flowchart LR` with a subgraph for each task that has children."""
    lines = ["flowchart LR", f"  %% {plan}", *_mermaid_boxes(tasks, "task/.", "  ")]
    lines += [f"  {_id(need)} --> {_id(address)}" for need, address in graph_edges(tasks)]
    return "\n".join(lines)


def _mermaid_boxes(tasks: TaskGraph, address: str, indent: str) -> Iterator[str]:
    for child in _children(tasks, address):
        label = _label(tasks, child).replace('"', "#quot;")
        if _children(tasks, child):
            yield f'{indent}subgraph {_id(child)}["{label}"]'
            yield from _mermaid_boxes(tasks, child, indent + "  ")
            yield f"{indent}end"
        else:
            yield f'{indent}{_id(child)}["{label}"]'


def dot_graph(plan: str, tasks: TaskGraph) -> str:
    """A digraph with a cluster for each task that has children; arrows go to and from the boxes themselves."""
    lines = [f"digraph {_quoted(plan)} {{", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    lines += _dot_boxes(tasks, "task/.", "  ")
    lines += [f"  {_quoted(need)} -> {_quoted(address)};" for need, address in graph_edges(tasks)]
    return "\n".join([*lines, "}"])


def _dot_boxes(tasks: TaskGraph, address: str, indent: str) -> Iterator[str]:
    for child in _children(tasks, address):
        if _children(tasks, child):
            yield f"{indent}subgraph {_quoted('cluster_' + child)} {{"
            yield f"{indent}  {_quoted(child)} [label={_quoted(_label(tasks, child))}];"
            yield from _dot_boxes(tasks, child, indent + "  ")
            yield f"{indent}}}"
        else:
            yield f"{indent}{_quoted(child)} [label={_quoted(_label(tasks, child))}];"


def svg_graph(plan: str, tasks: TaskGraph) -> str:
    """A drawing that needs no other program: a column for each step from the start, arrows for needs."""
    steps = graph_ranks(tasks)
    rows: dict[int, int] = {}
    at: dict[str, tuple[int, int]] = {}
    for address, step in steps.items():
        row = rows[step] = rows.get(step, -1) + 1
        at[address] = (MARGIN + step * COLUMN, MARGIN + row * ROW)
    width = MARGIN * 2 + BOX_WIDTH + max(rows, default=0) * COLUMN
    height = MARGIN * 2 + BOX_HEIGHT + max(rows.values(), default=0) * ROW
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">']
    lines.append(f"<title>{escape(plan)}</title>")
    lines += [_svg_arrow(at[need], at[address]) for need, address in graph_edges(tasks) if need in at and address in at]
    lines += [_svg_box(place, address, _label(tasks, address)) for address, place in at.items()]
    return "\n".join([*lines, "</svg>"])


def graph_ranks(tasks: TaskGraph) -> dict[str, int]:
    """How many arrows at most lead to each task, in the plan's order. The plan has no cycles: it compiled."""
    before: dict[str, list[str]] = {}
    for need, address in graph_edges(tasks):
        before.setdefault(address, []).append(need)
    out: dict[str, int] = {}
    waiting = [address for address in tasks if address != "task/."]
    while waiting:
        ready = [one for one in waiting if all(need in out for need in before.get(one, ()))]
        for address in ready:
            out[address] = max((out[need] + 1 for need in before.get(address, ())), default=0)
        waiting = [one for one in waiting if one not in out]
        if not ready:
            break
    return {address: out[address] for address in tasks if address in out}


def graph_edges(tasks: TaskGraph) -> list[tuple[str, str]]:
    """(need, task) for every need."""
    return [(str(need), address) for address, spec in tasks.items() for need in spec.get("needs", ())]


def _svg_box(place: tuple[int, int], address: str, label: str) -> str:
    x, y = place
    middle = f'x="{x + BOX_WIDTH // 2}" y="{y + BOX_HEIGHT // 2 + 4}" text-anchor="middle" font-size="12"'
    return (
        f'<g><title>{escape(address)}</title><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" '
        f'fill="white" stroke="black"/><text {middle}>{escape(label)}</text></g>'
    )


def _svg_arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1, x2, y2 = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT // 2, end[0], end[1] + BOX_HEIGHT // 2
    head = f"M {x2 - 7} {y2 - 4} L {x2} {y2} L {x2 - 7} {y2 + 4}"
    return f'<path d="M {x1} {y1} C {x1 + 20} {y1}, {x2 - 20} {y2}, {x2} {y2} {head}" fill="none" stroke="black"/>'


def _children(tasks: TaskGraph, address: str) -> list[str]:
    return [str(child) for child in tasks[address].get("children", ()) if child in tasks]


def _label(tasks: TaskGraph, address: str) -> str:
    name, goal = address.rpartition("/")[2], str(tasks[address].get("goal") or "")
    text = f"{name}: {goal}" if goal and goal != name else name
    return textwrap.shorten(text, LABEL_CHARS, placeholder="…") if len(text) > LABEL_CHARS else text


def _id(address: str) -> str:
    # Mermaid ids hold letters, digits and underscores; what else there is becomes its code, so no two meet.
    kind, _, name = address.partition("/")
    return f"{kind[0]}_" + "".join(one if one.isascii() and one.isalnum() else f"_{ord(one):x}_" for one in name)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
