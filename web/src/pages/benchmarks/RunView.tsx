// One run. While it continues, its report is read again whenever events arrive.

import { useState } from "preact/hooks";
import { useAnswer } from "../../answer";
import { Ago } from "../../parts/Ago";
import { Bar } from "../../parts/Bar";
import { Problem } from "../../parts/Problem";
import type { Line } from "../../socket";
import { clockTime } from "../../words/amounts";
import { useFollowing } from "./following";
import { ofRun, toAll, toCase, toComparison, toEntry } from "./places";
import { ReportView } from "./ReportView";
import { Reading } from "./Reading";
import type { RunEvent, RunFrame, RunTold } from "./types";
import { RunState } from "./Verdict";

const EVENTS_SHOWN = 100;

export function RunView({ suite, run }: { suite: string; run: string }) {
  const { value, error, again } = useAnswer<RunTold>(ofRun(suite, run));
  const { events, line } = useEvents(suite, run, again);
  const isLive = value?.state === "live";
  return (
    <article aria-labelledby="run-title">
      <nav aria-label="Breadcrumb">
        <a href={toAll()}>All benchmarks</a>
      </nav>
      <h1 id="run-title">
        {suite}/{run} {value && <RunState state={value.state} />}
      </h1>
      {error && <Problem error={error} />}
      {value === null && error === null && <Reading />}
      {value !== null && (
        <>
          <p role="status">
            {value.words}
            {value.usd && `, total cost ${value.usd}`}
            {value.last_ts !== null && !isLive && (
              <>
                , <Ago at={value.last_ts} />
              </>
            )}
            {isLive && line === "lost" && ", connection lost, reconnecting"}
          </p>
          {value.total > 0 && value.done < value.total && (
            <Bar label="finished" used={value.done} bound={value.total} words={`${value.done} of ${value.total}`} />
          )}
          {isLive && <Events suite={suite} run={run} events={events} />}
          {value.report !== null && <ReportView report={value.report} />}
          <h2>Commands</h2>
          <ul class="commands">
            {value.report !== null && (
              <li>
                <a href={toComparison([`${suite}/${run}`])}>Compare with other runs</a>, or run <code>{value.commands.report}</code>
              </li>
            )}
            {value.state !== "live" && value.state !== "complete" && (
              <li>
                Resume the run: <code>{value.commands.resume}</code>
              </li>
            )}
            {value.commands.plan && (
              <li>
                Show its plan and agents: <code>{value.commands.plan}</code>
              </li>
            )}
          </ul>
        </>
      )}
    </article>
  );
}

/** Follows the events of the run; calls `again` at intervals while events arrive. */
function useEvents(suite: string, run: string, again: () => void): { events: readonly RunEvent[]; line: Line } {
  const [events, setEvents] = useState<readonly RunEvent[]>([]);
  const isRelevant = (frame: RunFrame): boolean => {
    // A lower number means that the run was restarted under the same name: drop the old events.
    setEvents((before) => [...((before.at(-1)?.seq ?? 0) > frame.seq ? [] : before), ...frame.events].slice(-EVENTS_SHOWN));
    return true;
  };
  return { events, line: useFollowing(suite, run, true, { isRelevant, again }) };
}

function Events({ suite, run, events }: { suite: string; run: string; events: readonly RunEvent[] }) {
  return (
    <section aria-labelledby="events-title">
      <h2 id="events-title">Events</h2>
      <div class="events" role="log" aria-label="Events" tabIndex={0}>
        <ol reversed>
          {[...events].reverse().map((one) => (
            <li key={one.seq}>
              <span class="number quiet">{clockTime(one.ts)}</span>{" "}
              {one.case !== null && one.model !== null && one.trial !== null ? (
                <>
                  <a href={toCase(suite, run, one.case)}>{one.case}</a> <a href={toEntry(suite, run, one.case, one.model, one.trial)}>{`${one.model} ${one.trial}`}</a>{" "}
                </>
              ) : null}
              {one.words}
            </li>
          ))}
        </ol>
      </div>
    </section>
  );
}
