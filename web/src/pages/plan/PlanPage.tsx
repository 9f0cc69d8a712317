// The live plan: a tree or graph of its tasks, and the details of the selected one.

import { lazy, Suspense } from "preact/compat";
import { useEffect, useRef } from "preact/hooks";
import { isFocusLost } from "../../focus";
import { plan } from "../../log/plan";
import { Bar } from "../../parts/Bar";
import { signOf, toneOf } from "../../parts/Status";
import { go, href, show, view } from "../../routes";
import { oneLine, text } from "../../words/objects";
import { Details } from "./Details";
import "./plan.css";
import { costs, search, stateCounts, tasks, treeRows, wantedState } from "./state";
import { Tree } from "./Tree";
import { ROOT } from "./tree";

const Graph = lazy(() => import("./Graph"));
const NARROW = "(max-width: 640px)"; // As in the styles.
const ORDER = ["running", "checking", "blocked", "failed", "paused", "waiting", "stopping", "deleting", "cancelled", "done"];

export default function PlanPage({ rest }: { rest: string }) {
  // A path without a kind is a task, as in the command line.
  const chosen = rest === "" || /^[a-z]+\//.test(rest) ? rest : `task/${rest}`;
  const about = useRef<HTMLElement>(null);
  const before = useRef(chosen);
  // On a narrow screen the details replace the tree, so they take the focus; also after a link in the details.
  useEffect(() => {
    const isMoved = before.current !== chosen;
    before.current = chosen;
    if (chosen && (matchMedia(NARROW).matches || (isMoved && isFocusLost()))) about.current?.focus();
    if (isMoved) about.current?.scrollTo(0, 0);
  }, [chosen]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    go("plan");
    backToTree();
  };
  return (
    <div class="plan-page" data-chosen={chosen ? "" : undefined}>
      <Summary />
      <div class="plan-parts">
        <section class="plan-left" aria-label={view.value === "tree" ? "Tree of tasks" : "Dependency graph"}>
          {view.value === "tree" ? (
            <Tree chosen={chosen} />
          ) : (
            <Suspense fallback={<p class="quiet">…</p>}>
              <Graph chosen={chosen} />
            </Suspense>
          )}
          {view.value === "tree" && treeRows.value.length <= 1 && (search.value || wantedState.value) && <p class="quiet">No tasks match.</p>}
        </section>
        {chosen && (
          <section ref={about} class="plan-right" tabIndex={-1} aria-label={`About ${chosen}`} onKeyDown={onKeyDown}>
            <a class="close" href={href("plan")} onClick={backToTree}>
              Close
            </a>
            <Details key={chosen} address={chosen} />
          </section>
        )}
      </div>
    </div>
  );
}

/** Moves the focus from closed details back to the tree, once it is visible. */
function backToTree(): void {
  requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector<HTMLElement>(".tree")?.focus()));
}

function Summary() {
  const document = [...plan.kind("plan").value.values()][0];
  const root = tasks.value.get(ROOT);
  const found = [...stateCounts.value].sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const uses = root === undefined ? [] : costs.value.uses(root);
  const bounded = uses.filter((use) => use.bound !== undefined).slice(0, 3);
  const counted = uses.filter((use) => use.bound === undefined);
  return (
    <div class="plan-summary">
      <h1>
        <a href={href("plan", ROOT)}>{oneLine(text(document?.spec.goal)) || "The plan"}</a>
      </h1>
      <div class="plan-cost">
        {bounded.map((use) => (
          <Bar key={use.unit} label={use.label} used={use.used} bound={use.bound ?? 0} held={use.held} words={use.words} />
        ))}
        {counted.length > 0 && <span class="quiet number">{counted.map((use) => use.words).join(", ")} so far</span>}
      </div>
      <div class="toolbar">
        <div class="group" role="group" aria-label="View">
          {(["tree", "graph"] as const).map((name) => (
            <button key={name} type="button" aria-pressed={view.value === name} onClick={() => show(name)}>
              {name === "tree" ? "Tree" : "Graph"}
            </button>
          ))}
        </div>
        <input
          type="search"
          aria-label="Find tasks"
          placeholder="Find tasks"
          value={search.value}
          onInput={(event) => {
            search.value = event.currentTarget.value;
            if (view.value === "graph") show("tree");
          }}
        />
        <div class="states" role="group" aria-label="Filter by state">
          {found.map(([state, count]) => (
            <button
              key={state}
              type="button"
              class="plain"
              data-tone={toneOf(state)}
              aria-pressed={wantedState.value === state}
              onClick={() => {
                wantedState.value = wantedState.value === state ? "" : state;
                show("tree");
              }}
            >
              <span class="sign" aria-hidden="true">
                {signOf(state)}
              </span>{" "}
              {count} {state}
            </button>
          ))}
        </div>
      </div>
    </div>
  );
}
