// A comparison of several runs. Runs of one suite are compared on their common cases, with confidence intervals.

import { useAnswer } from "../../answer";
import { Problem } from "../../parts/Problem";
import { go } from "../../routes";
import { useFollowing } from "./following";
import { toAll, toComparison, toRun } from "./places";
import { ReportView, SheetTable } from "./ReportView";
import { Reading } from "./Reading";
import type { Comparison, Runs } from "./types";

export function ComparisonView({ runs }: { runs: readonly string[] }) {
  const { value, error, again } = useAnswer<Comparison>(runs.length > 0 ? "/comparison" : null, { runs: runs.join(",") });
  const all = useAnswer<Runs>("/runs");
  const live = (all.value?.runs ?? []).filter((one) => one.state === "live" && runs.includes(`${one.suite}/${one.run}`));
  const others = (all.value?.runs ?? []).filter((one) => one.total > 0 && !runs.includes(`${one.suite}/${one.run}`));
  return (
    <article aria-labelledby="comparison-title">
      <nav aria-label="Breadcrumb">
        <a href={toAll()}>All benchmarks</a>
      </nav>
      <h1 id="comparison-title">Comparison</h1>
      {live.map((one) => (
        <Following key={`${one.suite}/${one.run}`} suite={one.suite} run={one.run} again={again} />
      ))}
      <ul class="chosen" aria-label="Compared runs">
        {runs.map((name) => {
          const [suite = "", run = ""] = name.split("/");
          return (
            <li key={name} class="badge">
              <a href={toRun(suite, run)}>{name}</a>{" "}
              {runs.length > 1 && (
                <a href={toComparison(runs.filter((one) => one !== name))} aria-label={`Remove ${name}`}>
                  ×
                </a>
              )}
            </li>
          );
        })}
      </ul>
      {others.length > 0 && (
        <label>
          Add a run{" "}
          <select value="" onChange={(event) => event.currentTarget.value && go("benchmarks", `compare/${[...runs, event.currentTarget.value].join("/")}`)}>
            <option value="">…</option>
            {others.map((one) => (
              <option key={`${one.suite}/${one.run}`}>{`${one.suite}/${one.run}`}</option>
            ))}
          </select>
        </label>
      )}
      {error && <Problem error={error} />}
      {value === null && error === null && runs.length > 0 && <Reading />}
      {value?.report.glance.map((sheet) => <SheetTable key={sheet.title} sheet={sheet} />)}
      {value !== null && <ReportView report={value.report} />}
    </article>
  );
}

/** Updates the figures while a compared run continues. Renders nothing. */
function Following({ suite, run, again }: { suite: string; run: string; again: () => void }) {
  useFollowing(suite, run, true, { isRelevant: () => true, again });
  return null;
}
