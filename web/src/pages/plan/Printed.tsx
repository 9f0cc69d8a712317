// The output of a task's command: its end, then new output while it runs, and older pages on demand.

import { useEffect, useState } from "preact/hooks";
import { get, Refused, refusedOf } from "../../api";
import type { components } from "../../api-types";
import { plan } from "../../log/plan";
import type { Resource } from "../../log/record";
import { type Growing, OutputView, useOutput } from "../../parts/OutputView";
import { Problem } from "../../parts/Problem";
import { added, NOTHING, type Shown } from "./printed";

type Page = components["schemas"]["Printed"];
type State = "" | "running" | "over";

const PACE_MS = 500;
const FULL_CHARS = 32_000; // After a page of this length, more output is available immediately.
const NOT_FOUND = 404;
const EMPTY: Record<State, string> = { "": "", running: "No output yet.", over: "No output." };

export function Printed({ item }: { item: Resource }) {
  const path = `printed/${item.address === "task/." ? "~" : item.address.slice("task/".length).split("/").map(encodeURIComponent).join("/")}`;
  const isPast = plan.past.value !== null;
  const output = useOutput(NOTHING, (now) => get<Page>(path, { before: now.start }));
  const { state, error } = useReading(output, path, item.rev, isPast);
  if (isPast || (state === "" && error === null)) return null;
  return (
    <section class="printed" aria-labelledby="printed-title">
      <OutputView of={output} head={<h3 id="printed-title">Output</h3>} label="Command output" isGrowing={state === "running"} empty={EMPTY[state]} />
      {error && <Problem error={error} />}
    </section>
  );
}

/** Reads new output while the command runs, and once at each revision of its task. */
function useReading(output: Growing<Shown>, path: string, rev: number, isPast: boolean): { state: State; error: Refused | null } {
  const [state, setState] = useState<State>("");
  const [error, setError] = useState<Refused | null>(null);
  useEffect(() => {
    if (isPast) return;
    let timer = 0;
    let isGone = false;
    const again = (after: number): void => {
      timer = window.setTimeout(() => void read(), after);
    };
    const show = (page: Page): void => {
      output.put((now) => added(now, page));
      setState(page.is_over ? "over" : "running");
      setError(null);
      if (!page.is_over) again(page.text.length > FULL_CHARS ? 0 : PACE_MS);
    };
    const fail = (found: Refused): void => {
      if (found.status !== NOT_FOUND) {
        setError(found);
        again(PACE_MS);
        return;
      }
      // The command has not started; the details above show why. A revision of the task starts the next read.
      output.put(() => NOTHING);
      setState("");
      setError(null);
    };
    const read = async (): Promise<void> => {
      const { log, next } = output.now();
      const answer = await get<Page>(path, log ? { after: next } : {}).catch(refusedOf);
      if (isGone) return;
      if (answer instanceof Refused) fail(answer);
      else show(answer);
    };
    void read();
    return () => {
      isGone = true;
      window.clearTimeout(timer);
    };
  }, [path, rev, isPast]);
  return { state, error };
}
