// Benchmark suites, runs, results of each case, and comparisons of models. The server computes all figures.

import "./benchmarks.css";
import { CaseView } from "./CaseView";
import { ComparisonView } from "./ComparisonView";
import { EntryView } from "./EntryView";
import { Overview } from "./Overview";
import { RunView } from "./RunView";
import { SuiteView } from "./SuiteView";
import { where } from "./where";

export default function BenchmarksPage({ rest }: { rest: string }) {
  const place = where(rest);
  switch (place.at) {
    case "suite":
      return <SuiteView key={rest} suite={place.key} />;
    case "run":
      return <RunView key={rest} suite={place.suite} run={place.run} />;
    case "case":
      return <CaseView key={rest} suite={place.suite} run={place.run} id={place.case} />;
    case "entry":
      return <EntryView key={rest} suite={place.suite} run={place.run} id={place.case} model={place.model} trial={place.trial} />;
    case "compare":
      return <ComparisonView key={rest} runs={place.runs} />;
    default:
      return <Overview />;
  }
}
