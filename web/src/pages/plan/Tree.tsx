import { useEffect } from "preact/hooks";
import type { Resource } from "../../log/record";
import { plan } from "../../log/plan";
import { Took } from "../../parts/Ago";
import { Rows } from "../../parts/Rows";
import { signOf, toneOf } from "../../parts/Status";
import { go, linkTo, opensElsewhere } from "../../routes";
import { byNow, callText, checksOf, oneLine, stateOf, text, unblocksOf, whatOf } from "../../words/objects";
import { active, callsOf, calls, closed, costs, isInLine, treeRows } from "./state";
import { kept, ROOT, type Row, step } from "./tree";

const HEIGHT = 28;
const PAGE = 20;

/** The plan as a tree: one stop for the keyboard, in which arrows walk, as in every tree. */
export function Tree({ chosen }: { chosen: string }) {
  const rows = treeRows.value;
  const at = rows.length === 0 ? -1 : kept(rows, active.value.uid, active.value.at);
  const row = rows[at];

  // Who comes by a link finds the keyboard where the link points.
  useEffect(() => {
    const to = rows.findIndex((one) => one.item.address === chosen);
    if (to >= 0) move(rows, to);
  }, [chosen]);

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const found = step(event.key, rows, at, PAGE);
    if (found === undefined) return;
    event.preventDefault();
    if ("to" in found) move(rows, found.to);
    else if ("choose" in found) choose(found.choose);
    else toggle("open" in found ? found.open : found.close);
  };

  return (
    <Rows
      class="tree"
      label="Tasks"
      items={rows}
      keyOf={(one) => one.item.uid}
      height={HEIGHT}
      role="tree"
      rowRole="treeitem"
      active={row?.item.uid}
      onKeyDown={onKeyDown}
      list={{ "aria-activedescendant": row && idOf(row) }}
      attributes={(one) => ({
        id: idOf(one),
        class: one === row ? "active" : "",
        "aria-level": one.level,
        "aria-setsize": one.size,
        "aria-posinset": one.position,
        "aria-expanded": one.hasChildren ? one.isOpen : undefined,
        "aria-selected": one.item.address === chosen,
        onClick: (event) => {
          if (opensElsewhere(event)) return;
          move(rows, rows.indexOf(one));
          // The name is a link, which leads there by itself.
          if (!(event.target as Element).closest(".twist, a[href]")) choose(one.item.address);
        },
      })}
      render={(one) => <Cells row={one} />}
    />
  );
}

function idOf(row: Row): string {
  return `row-${row.item.uid}`;
}

function move(rows: readonly Row[], to: number): void {
  const row = rows[to];
  if (row !== undefined) active.value = { uid: row.item.uid, at: to };
}

function choose(address: string): void {
  go("plan", address);
}

function toggle(address: string): void {
  const next = new Set(closed.value);
  if (!next.delete(address)) next.add(address);
  closed.value = next;
}

function Cells({ row }: { row: Row }) {
  const { item } = row;
  const state = stateOf(item);
  const said = doingOf(item);
  return (
    <>
      <span class="name" style={{ paddingLeft: `${(row.level - 1) * 16}px` }}>
        <span class="twist" aria-hidden="true" onClick={row.hasChildren ? () => toggle(item.address) : undefined}>
          {row.hasChildren ? (row.isOpen ? "▾" : "▸") : ""}
        </span>
        <span class="sign" data-tone={toneOf(state)} aria-hidden="true">
          {signOf(state)}
        </span>
        <a href={linkTo(item.address)} tabIndex={-1}>
          {item.address === ROOT ? plan.kind("plan").value.keys().next().value?.slice("plan/".length) : row.name}
        </a>
      </span>
      <span class="state" data-tone={toneOf(state)}>
        {state}
      </span>
      <span class="checks number">{checksOf(item)}</span>
      <span class="age number">
        <Worked item={item} />
      </span>
      <span class="cost number">{costs.value.short(item)}</span>
      <span class="what" title={said} data-tone={unblocksOf(item).length > 0 ? "warn" : undefined}>
        {said}
      </span>
    </>
  );
}

/** How long it has worked, or did work. */
function Worked({ item }: { item: Resource }) {
  const { started_at: from, ended_at: until } = item.status;
  return typeof from === "number" ? <Took from={from} until={typeof until === "number" ? until : undefined} /> : null;
}

/** What it waits for or came to; of one whose agent is at work, what that does. */
export function doingOf(item: Resource): string {
  if (isInLine(item)) return "waits for a slot";
  const said = byNow(whatOf(item), (path) => plan.object(`lock/${path}`).value);
  const agent = item.address.replace(/^task\//, "agent/");
  const withoutName = said.startsWith(`${agent}: `) ? said.slice(agent.length + 2) : said;
  if (text(item.status.why) !== "its agent works") return withoutName;
  const mind = plan.object(agent).value;
  if (mind === undefined) return withoutName;
  const call = (callsOf.value.get(agent) ?? []).map((one) => calls.value.get(one)).find(Boolean);
  const doing = call ? callText(call.spec) : stateOf(mind) === "running" ? "thinks" : oneLine(text(mind.status.why)) || stateOf(mind);
  return `turn ${text(mind.status.turn) || 0} · ${doing}`;
}
