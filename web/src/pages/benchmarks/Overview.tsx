// The lists of suites and runs. Selected runs can be compared.

import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../../answer";
import { Ago } from "../../parts/Ago";
import { Problem } from "../../parts/Problem";
import { toComparison, toRun, toSuite } from "./places";
import type { RunLine, Runs as AllRuns, Suites as AllSuites } from "./types";
import { RunState, Valid } from "./Verdict";

const LIVE_EVERY_MS = 2_000;
const EVERY_MS = 15_000; // The server does not announce new runs.

export function Overview() {
  return (
    <>
      <h1>Benchmarks</h1>
      <Runs />
      <Suites />
    </>
  );
}

function Suites() {
  const { value, error } = useAnswer<AllSuites>("/suites");
  return (
    <section aria-labelledby="suites-title">
      <h2 id="suites-title">Suites</h2>
      {error && <Problem error={error} />}
      {value === null && error === null && <p class="quiet">…</p>}
      {value !== null && (
        <div class="scroll" role="region" aria-label="Suites" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Suite</th>
                <th scope="col">Cases</th>
                <th scope="col">Validated</th>
                <th scope="col">Source</th>
                <th scope="col">Description</th>
              </tr>
            </thead>
            <tbody>
              {value.suites.map((one) => (
                <tr key={one.key}>
                  <th scope="row" class="name">
                    <a href={toSuite(one.key)}>{one.suite}</a>
                  </th>
                  <td class="number">{one.cases || ""}</td>
                  <td>{one.faults.length > 0 && one.cases === 0 ? <span class="bad">cannot be read</span> : <Valid valid={one.valid} />}</td>
                  <td>{one.file || "planloop"}</td>
                  <td class="prose">{one.about || one.faults[0]}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Runs() {
  const { value, error, again } = useAnswer<AllRuns>("/runs");
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const isLive = value?.runs.some((one) => one.state === "live") ?? false;
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && again(), isLive ? LIVE_EVERY_MS : EVERY_MS);
    return () => clearInterval(timer);
  }, [isLive]);
  const choose = (name: string, isChosen: boolean): void => {
    setChosen((before) => (isChosen ? [...before, name] : before.filter((one) => one !== name)));
  };
  return (
    <section aria-labelledby="runs-title">
      <div class="toolbar">
        <h2 id="runs-title">Runs</h2>
        {chosen.length > 0 && <a href={toComparison(chosen)}>{chosen.length > 1 ? `Compare ${chosen.length} runs` : "Compare its models"}</a>}
      </div>
      {error && <Problem error={error} />}
      {value === null && error === null && <p class="quiet">…</p>}
      {value?.runs.length === 0 && (
        <p class="quiet">
          No runs yet. To start one, run <code>plan bench run SUITE --model oracle --model nop</code>.
        </p>
      )}
      {value !== null && value.runs.length > 0 && (
        <div class="scroll" role="region" aria-label="Runs" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Compare</th>
                <th scope="col">Run</th>
                <th scope="col">State</th>
                <th scope="col">Finished</th>
                <th scope="col">Passed (95 % interval)</th>
                <th scope="col">Cost</th>
                <th scope="col">Age</th>
              </tr>
            </thead>
            <tbody>
              {value.runs.map((one) => (
                <Row key={`${one.suite}/${one.run}`} one={one} isChosen={chosen.includes(`${one.suite}/${one.run}`)} choose={choose} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {value !== null && value.left > 0 && (
        <p class="quiet">
          {value.left} older runs are not shown. To list all of them, run <code>plan bench report</code>.
        </p>
      )}
    </section>
  );
}

interface RowProps {
  one: RunLine;
  isChosen: boolean;
  choose: (name: string, isChosen: boolean) => void;
}

function Row({ one, isChosen, choose }: RowProps) {
  const name = `${one.suite}/${one.run}`;
  return (
    <tr>
      <td>
        <input type="checkbox" aria-label={`Compare ${name}`} checked={isChosen} disabled={one.total === 0} onChange={(event) => choose(name, event.currentTarget.checked)} />
      </td>
      <th scope="row" class="name">
        <a href={toRun(one.suite, one.run)}>{name}</a>
      </th>
      <td>
        <RunState state={one.state} /> {one.state === "incomplete" || one.state === "broken" ? <span class="quiet">{one.words}</span> : null}
      </td>
      <td class="number">{one.total > 0 && `${one.done} of ${one.total}`}</td>
      <td>
        <ul class="models">
          {one.models.map((model) => (
            <li key={model.model}>
              {model.model} <span class="number">{model.words}</span>
            </li>
          ))}
        </ul>
      </td>
      <td class="number">{one.usd}</td>
      <td>{one.last_ts !== null && <Ago at={one.last_ts} />}</td>
    </tr>
  );
}
