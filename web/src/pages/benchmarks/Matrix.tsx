// A table of all cases and models, with a sign for each trial that links to its result.

import { useState } from "preact/hooks";
import { toCase, toEntry } from "./places";
import type { Section } from "./types";
import { signOfVerdict, toneOfVerdict } from "./Verdict";

const SHOWN = 200; // Initial rows: imported suites have thousands of cases.

type Filter = "all" | "unpassed" | "differing" | "undecided";

const FILTERS: Record<Filter, string> = {
  all: "all cases",
  unpassed: "not passed by all models",
  differing: "different results",
  undecided: "without a verdict",
};

export function Matrix({ section }: { section: Section }) {
  const [words, setWords] = useState("");
  const [filter, setFilter] = useState<Filter>("all");
  const [count, setCount] = useState(SHOWN);
  const all = Object.keys(section.cases);
  const found = all.filter((id) => id.includes(words.trim()) && matches(filter, section.cases[id] ?? []));
  return (
    <section aria-label={`All verdicts of ${section.suite}`}>
      <h3>All verdicts</h3>
      <div class="toolbar">
        <label>
          Case <input type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        </label>
        <label>
          Show{" "}
          <select value={filter} onChange={(event) => setFilter(event.currentTarget.value as Filter)}>
            {Object.entries(FILTERS).map(([name, label]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <span class="quiet" role="status">
          {found.length === all.length ? `${all.length} cases` : `${found.length} of ${all.length} cases`}
        </span>
      </div>
      <div class="scroll" role="region" aria-label="Verdicts by case and model" tabIndex={0}>
        <table class="matrix">
          <thead>
            <tr>
              <th scope="col" class="name">
                Case
              </th>
              {section.columns.map((column) => (
                <th key={column.label} scope="col">
                  {column.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {found.slice(0, count).map((id) => (
              <tr key={id}>
                <th scope="row" class="name">
                  <a href={toCase(section.suite, section.runs[0]?.run ?? "", id)}>{id}</a>
                </th>
                {section.columns.map((column, at) => (
                  <td key={column.label}>
                    <Trials suite={section.suite} run={column.run} id={id} model={column.model} trials={section.cases[id]?.[at] ?? {}} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.length > count && (
        <button type="button" onClick={() => setCount((before) => before + SHOWN)}>
          Show {Math.min(SHOWN, found.length - count)} more
        </button>
      )}
    </section>
  );
}

interface TrialsProps {
  suite: string;
  run: string;
  id: string;
  model: string;
  trials: Record<string, string>;
}

function Trials({ suite, run, id, model, trials }: TrialsProps) {
  return (
    <>
      {Object.entries(trials).map(([trial, verdict]) => (
        <a key={trial} class="trial" href={toEntry(suite, run, id, model, trial)} data-tone={toneOfVerdict(verdict)} aria-label={`${id}, ${model}, trial ${trial}: ${verdict}`} title={`trial ${trial}: ${verdict}`}>
          {signOfVerdict(verdict)}
        </a>
      ))}
    </>
  );
}

function matches(filter: Filter, columns: readonly Record<string, string>[]): boolean {
  const verdicts = columns.map((trials) => Object.values(trials));
  const every = verdicts.flat();
  switch (filter) {
    case "unpassed":
      return every.some((one) => one !== "pass");
    case "differing":
      return new Set(verdicts.filter((of) => of.length > 0).map((of) => of.filter((one) => one === "pass").length / of.length)).size > 1;
    case "undecided":
      return every.some((one) => one !== "pass" && one !== "fail");
    default:
      return true;
  }
}
