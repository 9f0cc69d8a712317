// One suite: its cases, the proofs of their checks, and its validation.

import { useAnswer } from "../../answer";
import { Problem } from "../../parts/Problem";
import { plural } from "../../words/amounts";
import { toAll, toRun } from "./places";
import { Reading } from "./Reading";
import type { SuiteCase, SuiteTold } from "./types";
import { Valid } from "./Verdict";

export function SuiteView({ suite }: { suite: string }) {
  const { value, error } = useAnswer<SuiteTold>(`/suites/${suite.split("/").map(encodeURIComponent).join("/")}`);
  return (
    <article aria-labelledby="suite-title">
      <nav aria-label="Breadcrumb">
        <a href={toAll()}>All benchmarks</a>
      </nav>
      <h1 id="suite-title">{value?.suite ?? suite}</h1>
      {error && <Problem error={error} />}
      {value === null && error === null && <Reading />}
      {value !== null && (
        <>
          <p>{value.about}</p>
          <p>
            <Valid valid={value.valid} />{" "}
            {value.validation ? (
              <a href={toRun(value.suite, "validation")}>validation run</a>
            ) : (
              <span class="quiet">
                To validate it, run <code>plan bench validate {value.key}</code>.
              </span>
            )}
          </p>
          {value.faults.length > 0 && (
            <ul class="problem">
              {value.faults.map((error) => (
                <li key={error}>{error}</li>
              ))}
            </ul>
          )}
          <p class="quiet">
            To run it: <code>plan bench run {value.key} --model oracle --model nop</code>
          </p>
          <Cases cases={value.members} />
        </>
      )}
    </article>
  );
}

function Cases({ cases }: { cases: readonly SuiteCase[] }) {
  return (
    <div class="scroll" role="region" aria-label="Cases" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Case</th>
            <th scope="col">Validated</th>
            <th scope="col">Image</th>
            <th scope="col">Checks</th>
            <th scope="col">Proofs</th>
            <th scope="col">Prompt</th>
          </tr>
        </thead>
        <tbody>
          {cases.map((one) => (
            <tr key={one.case}>
              <th scope="row" class="name">
                {one.case}
                <Tags tags={one.tags} language={one.language} />
              </th>
              <td>
                <Valid valid={one.valid} />
              </td>
              <td class="mono">{one.image}</td>
              <td>
                <ul class="models">
                  {one.checks.map((check) => (
                    <li key={check.check}>
                      {check.check} <span class="quiet">{check.kind}</span>
                    </li>
                  ))}
                </ul>
              </td>
              <td>{proofs(one)}</td>
              <td class="prose">
                {one.about}
                <details>
                  <summary>{one.prompts.length === 1 ? "Full prompt" : `${one.prompts.length} prompts`}</summary>
                  {one.prompts.map((prompt) => (
                    <pre key={prompt}>{prompt}</pre>
                  ))}
                </details>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function proofs({ proofs: { oracle, mutant, cheat } }: SuiteCase): string {
  const cheats = cheat === "standard" ? "standard cheats" : cheat.length > 0 ? plural(cheat.length, "cheat") : "";
  return [oracle.length > 0 && plural(oracle.length, "oracle"), mutant.length > 0 && plural(mutant.length, "mutant"), cheats].filter(Boolean).join(", ");
}

export function Tags({ tags, language }: { tags: Record<string, unknown>; language: string }) {
  const found: [string, unknown][] = [...(language ? [["language", language] as [string, string]] : []), ...Object.entries(tags)];
  return (
    <>
      {found.map(([name, value]) => (
        <span key={name} class="badge tag">
          {name} {String(value)}
        </span>
      ))}
    </>
  );
}
