// The frame around every page: the plan's name, the navigation, the state of the connection and the timeline.

import { lazy, Suspense } from "preact/compat";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Refused } from "./api";
import { isFocusLost } from "./focus";
import { resumeCommand } from "./log/owner";
import { plan } from "./log/plan";
import { Boundary } from "./parts/Boundary";
import { Problem } from "./parts/Problem";
import { markLoaded, reload } from "./reload";
import { href, PAGES, type PageName, place } from "./routes";
import { hasPlan, session } from "./session";
import { PastNote, Timeline } from "./Timeline";

const TITLES: Record<PageName, string> = {
  plan: "Plan",
  edit: "Edit",
  agents: "Agents",
  locks: "Locks",
  containers: "Containers",
  approvals: "Approvals",
  history: "History",
  benchmarks: "Benchmarks",
};

// Each page is a separate file, fetched when it is first opened: the editor alone is 400 KB.
const LOADERS = {
  plan: () => import("./pages/plan/PlanPage"),
  edit: () => import("./pages/edit/EditPage"),
  agents: () => import("./pages/agents/AgentsPage"),
  locks: () => import("./pages/locks/LocksPage"),
  containers: () => import("./pages/containers/ContainersPage"),
  approvals: () => import("./pages/approvals/ApprovalsPage"),
  history: () => import("./pages/history/HistoryPage"),
  benchmarks: () => import("./pages/benchmarks/BenchmarksPage"),
};

const PARTS = {
  plan: lazy(LOADERS.plan),
  edit: lazy(LOADERS.edit),
  agents: lazy(LOADERS.agents),
  locks: lazy(LOADERS.locks),
  containers: lazy(LOADERS.containers),
  approvals: lazy(LOADERS.approvals),
  history: lazy(LOADERS.history),
  benchmarks: lazy(LOADERS.benchmarks),
};

/** Fetches the file of the first page while the plan loads. */
export function preload(): void {
  // If that fails, the page's Boundary shows the error.
  LOADERS[place.value.page]().then(markLoaded, () => undefined);
}

const LINES = { connecting: "connecting", live: "live", lost: "connection lost, reconnecting", revoked: "disconnected" };
const REVOKED = new Refused(401, "This link was revoked, so the page no longer updates.", "Open the link that `plan serve` printed last.");

// The pages that can show any revision of the log. The others show only the present: opening one leaves the past.
const WITH_PAST: readonly PageName[] = ["plan", "agents", "locks", "containers", "approvals"];

export function Shell() {
  const name = session.value.plan || "reports";
  const pages: readonly PageName[] = hasPlan() ? PAGES : ["benchmarks"];
  const page = pages.includes(place.value.page) ? place.value.page : "benchmarks";
  const rest = page === place.value.page ? place.value.rest : "";
  const Part = PARTS[page];
  const hasPast = WITH_PAST.includes(page);
  useLayoutEffect(() => {
    if (!hasPast) void plan.look(null);
  }, [hasPast]);
  const main = useRef<HTMLElement>(null);
  const before = useRef({ page, rest });
  // If the clicked link was part of the old page, the focus is lost with it: move it to the new page.
  useEffect(() => {
    if (before.current.page === page && before.current.rest === rest) return;
    before.current = { page, rest };
    if (!isFocusLost()) return;
    main.current?.focus({ preventScroll: true });
    main.current?.scrollTo(0, 0);
  }, [page, rest]);
  document.title = `${rest || TITLES[page]} · ${name}`;
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="shell-head">
        <strong title={name}>{name}</strong>
        <nav aria-label="Pages">
          {pages.map((one) => (
            <a key={one} href={href(one)} aria-current={one === page ? "page" : undefined}>
              {TITLES[one]}
            </a>
          ))}
        </nav>
        {hasPlan() && <Line />}
      </header>
      <PastNote />
      <main ref={main} id="main" tabIndex={-1} aria-label={rest || TITLES[page]} data-past={plan.past.value === null ? undefined : ""}>
        {plan.line.value === "revoked" && <Problem error={REVOKED} />}
        <Boundary key={page} again={() => void reload().catch(() => undefined)}>
          <Suspense fallback={<p class="quiet">…</p>}>
            <Part rest={rest} />
          </Suspense>
        </Boundary>
      </main>
      {hasPast && <Timeline />}
    </>
  );
}

/** The state of the connection. Screen readers hear only that: the revision changes too often. */
function Line() {
  const state = plan.line.value;
  const command = plan.line.value === "live" ? resumeCommand.value : "";
  return (
    <span class="line" data-line={command ? "still" : state}>
      <span role="status">
        {LINES[state]}
        {command && (
          <>
            , plan not running. Resume: <code>{command}</code>
          </>
        )}
      </span>
      {session.value.right === "read" && " · read-only"} · rev {plan.head.value}
    </span>
  );
}
