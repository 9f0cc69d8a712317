// One case of a run: its prompts, checks, files, and the result with each model.

import { useAnswer } from "../../answer";
import { Problem } from "../../parts/Problem";
import { isOpen, useFollowing } from "./following";
import { ofRun, toEntry, toRun } from "./places";
import { Tags } from "./SuiteView";
import { Reading } from "./Reading";
import type { CaseTold, Written } from "./types";
import { Verdict } from "./Verdict";

export function CaseView({ suite, run, id }: { suite: string; run: string; id: string }) {
  const { value, error, again } = useAnswer<CaseTold>(ofRun(suite, run, `/cases/${encodeURIComponent(id)}`));
  useFollowing(suite, run, isOpen(value?.entries.map((one) => one.verdict)), { isRelevant: (frame) => frame.events.some((one) => one.case === id), again });
  return (
    <article aria-labelledby="case-title">
      <nav aria-label="Breadcrumb">
        <a href={toRun(suite, run)}>
          {suite}/{run}
        </a>
      </nav>
      <h1 id="case-title">{id}</h1>
      {error && <Problem error={error} />}
      {value === null && error === null && <Reading />}
      {value !== null && (
        <>
          <p>
            <Tags tags={value.about.tags} language={value.about.language} />
            {value.about.image && <span class="badge tag mono">{value.about.image}</span>}
          </p>
          <h2>Results</h2>
          <Entries value={value} />
          <h2>{value.prompts.length === 1 ? "Prompt" : "Prompt variants"}</h2>
          {value.prompts.map((prompt) => (
            <pre key={prompt}>{prompt}</pre>
          ))}
          <h2>Checks</h2>
          <Checks checks={value.checks} />
          {value.about.tools !== null && (
            <>
              <h2>Tools</h2>
              <p class="mono">{value.about.tools.join(", ") || "none"}</p>
            </>
          )}
          <Files files={value.about.files} />
        </>
      )}
    </article>
  );
}

function Entries({ value }: { value: CaseTold }) {
  return (
    <div class="scroll" role="region" aria-label="Results" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col">Trial</th>
            <th scope="col">Verdict</th>
            <th scope="col">Turns</th>
            <th scope="col">Calls</th>
            <th scope="col">Tokens</th>
            <th scope="col">Cost</th>
            <th scope="col">Time</th>
            <th scope="col">Reason</th>
          </tr>
        </thead>
        <tbody>
          {value.entries.map((one) => (
            <tr key={`${one.model} ${one.trial}`}>
              <th scope="row" class="name">
                <a href={toEntry(value.suite, value.run, value.case, one.model, one.trial)} aria-label={`${one.model}, trial ${one.trial}`}>
                  {one.model}
                </a>
              </th>
              <td class="number">{one.trial}</td>
              <td>
                <Verdict verdict={one.verdict} />
                {one.touched && <span class="badge">helped by a user</span>}
              </td>
              <td class="number">{one.usage?.turns}</td>
              <td class="number">{one.usage?.calls}</td>
              <td class="number">{one.usage && one.usage.tokens_in + one.usage.tokens_out}</td>
              <td class="number">{one.usage?.usd_words}</td>
              <td class="number">{one.seconds}</td>
              <td class="prose">{one.why}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Checks({ checks }: { checks: readonly Written[] }) {
  return (
    <dl class="facts">
      {checks.map((one) => (
        <CheckFact key={one.check} check={one} />
      ))}
    </dl>
  );
}

function CheckFact({ check }: { check: Written }) {
  return (
    <>
      <dt>{check.check}</dt>
      <dd>
        {check.kind}
        <pre>{JSON.stringify(check.arguments, null, 2)}</pre>
      </dd>
    </>
  );
}

function Files({ files }: { files: Record<string, string> }) {
  const names = Object.keys(files);
  if (names.length === 0) return null;
  return (
    <>
      <h2>Initial files</h2>
      {names.map((name) => (
        <details key={name}>
          <summary class="mono">{name}</summary>
          <pre>{files[name]}</pre>
        </details>
      ))}
    </>
  );
}
