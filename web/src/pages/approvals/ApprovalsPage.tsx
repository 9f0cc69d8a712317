// Everything that waits for a user: its reason, its effect, and the form that answers it.

import { computed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { components } from "../../api-types";
import { plan } from "../../log/plan";
import { Problem } from "../../parts/Problem";
import { WhyNot } from "../../parts/WhyNot";
import { useRead } from "../../reading";
import { text } from "../../words/objects";
import { lastNews } from "./Answer";
import { ApprovalCard } from "./ApprovalCard";
import "./approvals.css";
import { ConflictCard } from "./ConflictCard";
import { HookCard } from "./HookCard";
import { UnknownCallCard } from "./UnknownCallCard";

export type Waiting = components["schemas"]["Waiting"];

/** Identifies the calls with an unknown outcome. Unlike the set of all calls, this text rarely changes. */
const unknownCalls = computed(() => [...plan.kind("call").value.values()].filter((one) => text(one.status.state) === "Unknown").map((one) => one.address + one.rev).join(" "));

export default function ApprovalsPage({ rest }: { rest: string }) {
  const wake = `${plan.past.value} ${unknownCalls.value} ${versions("approval")} ${versions("conflict")} ${versions("hook")}`;
  const past = plan.past.value;
  const { value, error } = useRead<Waiting>("waiting", past === null ? {} : { at: past }, wake);
  const address = rest === "" ? "" : /^(approval|conflict|call|hook)\//.test(rest) ? rest : `approval/${rest}`;
  const isThere = value !== undefined && address !== "";
  useEffect(() => {
    const element = document.getElementById(address);
    element?.scrollIntoView({ block: "nearest" });
    element?.focus({ preventScroll: true });
  }, [address, isThere]);
  // An answered card disappears and the focus with it: move the focus to the heading.
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (lastNews.value && (document.activeElement === null || document.activeElement === document.body)) heading.current?.focus({ preventScroll: true });
  }, [value]);
  const count = value === undefined ? 0 : value.approvals.length + value.conflicts.length + value.doubts.length;
  return (
    <div class="approvals-page">
      <div class="toolbar">
        <h1 ref={heading} tabIndex={-1}>
          Approvals
        </h1>
        <span class="quiet" role="status">
          {value !== undefined && (count === 0 ? "nothing to approve" : `${count} pending`)}
        </span>
      </div>
      <p class="quiet answered" role="status">
        {lastNews.value}
      </p>
      <WhyNot />
      {error && <Problem error={error} />}
      {value !== undefined && address !== "" && !knows(value, address) && <p class="quiet">{address} is not pending: it was answered or deleted.</p>}
      {value !== undefined && (
        <>
          <Group title="Waiting for approval" items={value.approvals} render={(one) => <ApprovalCard key={one.address} item={one} />} />
          <Group title="Conflicts to resolve" items={value.conflicts} render={(one) => <ConflictCard key={one.address} item={one} />} />
          <Group title="Calls with an unknown outcome" items={value.doubts} render={(one) => <UnknownCallCard key={one.address} item={one} />} />
          <Group title="Hooks that stay until you end them" items={value.hooks} render={(one) => <HookCard key={one.address} item={one} />} />
          {count === 0 && value.hooks.length === 0 && (
            <p class="quiet">Held edits, requests of agents, questions of tool servers, conflicts over files and calls with an unknown outcome appear here.</p>
          )}
        </>
      )}
    </div>
  );
}

function knows(value: Waiting, address: string): boolean {
  return [...value.approvals, ...value.conflicts, ...value.doubts, ...value.hooks].some((one) => one.address === address);
}

/** Returns a text that changes with the objects of a kind. The number of times that a hook fired does not count. */
function versions(kind: string): string {
  return [...plan.kind(kind).value.values()].map((one) => `${one.address}:${kind === "hook" ? `${one.generation}${text(one.status.state)}${text(one.status.approved_by)}` : one.rev}`).join(" ");
}

function Group<T>({ title, items, render }: { title: string; items: readonly T[]; render: (item: T) => ComponentChildren }) {
  if (items.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <div class="cards">{items.map(render)}</div>
    </section>
  );
}
