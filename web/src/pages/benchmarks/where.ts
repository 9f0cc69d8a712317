// Parses the path of a benchmark page; places.ts builds it. A model's name can contain slashes, so it is between the case
// and the trial.

export type Where =
  | { at: "all" }
  | { at: "suite"; key: string }
  | { at: "run"; suite: string; run: string }
  | { at: "case"; suite: string; run: string; case: string }
  | { at: "entry"; suite: string; run: string; case: string; model: string; trial: number }
  | { at: "compare"; runs: string[] };

export function where(rest: string): Where {
  const [word, ...parts] = rest.split("/");
  if (word === "suite" && parts.length > 0) return { at: "suite", key: parts.join("/") };
  if (word === "compare") {
    const runs = parts.flatMap((part, at) => (at % 2 === 0 && parts[at + 1] ? [`${part}/${parts[at + 1]}`] : []));
    return { at: "compare", runs };
  }
  const [suite, run, one, ...more] = parts;
  if (word !== "run" || !suite || !run) return { at: "all" };
  if (!one) return { at: "run", suite, run };
  if (more.length < 2) return { at: "case", suite, run, case: one };
  return { at: "entry", suite, run, case: one, model: more.slice(0, -1).join("/"), trial: Number(more.at(-1)) };
}
