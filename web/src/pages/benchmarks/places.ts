// Links to the benchmark pages, such as /benchmarks/run/SUITE/RUN.

import { href } from "../../routes";

export const toAll = (): string => href("benchmarks");
export const toSuite = (key: string): string => href("benchmarks", `suite/${key}`);
export const toRun = (suite: string, run: string): string => href("benchmarks", `run/${suite}/${run}`);
export const toCase = (suite: string, run: string, id: string): string => href("benchmarks", `run/${suite}/${run}/${id}`);
export const toEntry = (suite: string, run: string, id: string, model: string, trial: number | string): string =>
  href("benchmarks", `run/${suite}/${run}/${id}/${model}/${trial}`);
export const toComparison = (runs: readonly string[]): string => href("benchmarks", `compare/${runs.join("/")}`);

/** Returns the API path of a run, with `more` appended. */
export function ofRun(suite: string, run: string, more = ""): string {
  return `/runs/${encodeURIComponent(suite)}/${encodeURIComponent(run)}${more}`;
}
