// What stands around every page: the plan's name, where one is, and whether the log is being listened to.

import { lazy, Suspense } from "preact/compat";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { isFetched, loadAnew } from "./anew";
import { Refused } from "./api";
import { isFocusLost } from "./focus";
import { goesOn } from "./log/owner";
import { plan } from "./log/plan";
import { Boundary } from "./parts/Boundary";
import { Problem } from "./parts/Problem";
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

// Each page is a file of its own that is fetched when it is first looked at: the editor alone is 400 KB.
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

/** Fetches the file of the page that is looked at first, while the plan is still on its way. */
export function preload(): void {
  // What goes wrong with it is told where the page is shown.
  LOADERS[place.value.page]().then(isFetched, () => undefined);
}

const LINES = { connecting: "connecting", live: "live", lost: "connection lost, trying again", dead: "not connected" };
const DEAD = new Refused(401, "this link is dead: what is shown here moves no more", "use the link that plan serve printed last");

// The pages that are a fold of the log, and so can show any revision of it. The others tell of now, with what they show
// beside it: whoever goes there is back in the present.
const FOLDED: readonly PageName[] = ["plan", "agents", "locks", "containers", "approvals"];

export function Shell() {
  const name = session.value.plan || "reports";
  const pages: readonly PageName[] = hasPlan() ? PAGES : ["benchmarks"];
  const page = pages.includes(place.value.page) ? place.value.page : "benchmarks";
  const rest = page === place.value.page ? place.value.rest : "";
  const Part = PARTS[page];
  const isFolded = FOLDED.includes(page);
  useLayoutEffect(() => {
    if (!isFolded) void plan.look(null);
  }, [isFolded]);
  const main = useRef<HTMLElement>(null);
  const before = useRef({ page, rest });
  // The link that led here may have been in what it replaced: whoever uses the keyboard goes on in what is there now.
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
        Skip to the content
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
        {plan.line.value === "dead" && <Problem error={DEAD} />}
        <Boundary key={page} again={() => void loadAnew().catch(() => undefined)}>
          <Suspense fallback={<p class="quiet">…</p>}>
            <Part rest={rest} />
          </Suspense>
        </Boundary>
      </main>
      {isFolded && <Timeline />}
    </>
  );
}

/** Whether the log is listened to. Only that is told to those who listen; the revision changes too often. */
function Line() {
  const state = plan.line.value;
  const way = plan.line.value === "live" ? goesOn.value : "";
  return (
    <span class="line" data-line={way ? "still" : state}>
      <span role="status">
        {LINES[state]}
        {way && (
          <>
            , nobody runs it: <code>{way}</code>
          </>
        )}
      </span>
      {session.value.right === "read" && " · look only"} · rev {plan.head.value}
    </span>
  );
}
