import { useEffect } from "preact/hooks";
import type { Resource } from "../../log/record";
import { plan } from "../../log/plan";
import { Took } from "../../parts/Ago";
import { Rows } from "../../parts/Rows";
import { signOf, toneOf } from "../../parts/Status";
import { go, linkTo, opensElsewhere } from "../../routes";
import { withCurrentHolders, callText, checksOf, oneLine, stateOf, text, unblocksOf, whatOf } from "../../words/objects";
import { active, calls, callsOf, closed, costs, isAgentAtWork, treeRows, waitsOnlyForSlot } from "./state";
import { kept, ROOT, type Row, step } from "./tree";

const HEIGHT = 28;
const PAGE = 20;

/** The plan as a tree, with one tab stop: the arrow keys move inside it. */
export function Tree({ chosen }: { chosen: string }) {
  const rows = treeRows.value;
  const at = rows.length === 0 ? -1 : kept(rows, active.value.uid, active.value.at);
  const row = rows[at];

  // Move the active row to the task that a link selected.
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
          // A click on the name follows its link.
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
  const activity = activityOf(item);
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
        <Duration item={item} />
      </span>
      <span class="cost number">{costs.value.short(item)}</span>
      <span class="what" title={activity} data-tone={unblocksOf(item).length > 0 ? "warn" : undefined}>
        {activity}
      </span>
    </>
  );
}

/** How long the task has run. */
function Duration({ item }: { item: Resource }) {
  const { started_at: from, ended_at: until } = item.status;
  return typeof from === "number" ? <Took from={from} until={typeof until === "number" ? until : undefined} /> : null;
}

/** Returns why the task waits, or its result; for a working agent, its turn and current call. */
export function activityOf(item: Resource): string {
  if (waitsOnlyForSlot(item)) return "waits for a slot";
  const reason = withCurrentHolders(whatOf(item), (path) => plan.object(`lock/${path}`).value);
  const address = item.address.replace(/^task\//, "agent/");
  const withoutName = reason.startsWith(`${address}: `) ? reason.slice(address.length + 2) : reason;
  const agent = plan.object(address).value;
  if (agent === undefined || !isAgentAtWork(item)) return withoutName;
  const call = (callsOf.value.get(address) ?? []).map((one) => calls.value.get(one)).find(Boolean);
  const step = call ? callText(call.spec) : stateOf(agent) === "running" ? "waiting for its model" : oneLine(text(agent.status.why)) || stateOf(agent);
  return `turn ${text(agent.status.turn) || 0} · ${step}`;
}
