// The log as a line that one can go back on: the whole page then shows the plan as it was, and nothing can be changed.

import { useEffect, useRef, useState } from "preact/hooks";
import { Refused } from "./api";
import { plan } from "./log/plan";
import { clockTime } from "./words/amounts";

/** Shows the plan as of `rev`, null for live; returns what went wrong, empty when nothing did. */
async function look(rev: number | null): Promise<string> {
  try {
    await plan.look(rev);
    return "";
  } catch (error) {
    return error instanceof Refused ? error.summary : String(error);
  }
}

export function Timeline() {
  const head = plan.head.value;
  const past = plan.past.value;
  // What is asked for and not yet shown: the thumb is where the hand is, also while an old stretch is fetched.
  const [wanted, setWanted] = useState<number | null>(null);
  const [fault, setFault] = useState("");
  const asked = useRef(0);
  const slider = useRef<HTMLInputElement>(null);
  const at = wanted ?? past ?? head;

  const seek = async (rev: number): Promise<void> => {
    const mine = ++asked.current;
    setWanted(rev);
    const said = await look(rev >= head ? null : Math.max(1, rev));
    if (mine !== asked.current) return;
    setFault(said);
    setWanted(null);
  };

  // The thumb of a range input is the browser's: while the plan goes on, the newest revision stays at its right end.
  useEffect(() => {
    if (slider.current !== null) slider.current.value = String(at);
  }, [at, head]);

  const said = plan.recent.value.at(-1);
  const words = at >= head ? `live, revision ${head}` : `revision ${at} of ${head}${said ? `, ${clockTime(said.at)}` : ""}`;
  return (
    <section class="timeline" aria-label="Timeline" data-past={at < head ? "" : undefined}>
      <button type="button" class="plain" aria-label="One revision back" disabled={at <= 1} onClick={() => void seek(at - 1)}>
        ‹
      </button>
      <input
        ref={slider}
        type="range"
        min={1}
        max={Math.max(1, head)}
        step={1}
        aria-label="Revision"
        aria-valuetext={words}
        onInput={(event) => void seek(event.currentTarget.valueAsNumber)}
      />
      <button type="button" class="plain" aria-label="One revision on" disabled={at >= head} onClick={() => void seek(at + 1)}>
        ›
      </button>
      <span class="timeline-said">
        {fault || (said && said.rev <= at ? `rev ${at} · ${clockTime(said.at)} · ${said.type} ${said.subject}` : words)}
      </span>
    </section>
  );
}

/** Says that this is the past, above everything, and leads back. */
export function PastNote() {
  const past = plan.past.value;
  const at = plan.pastAt.value;
  return (
    <div role="status">
      {past !== null && (
        <div class="past-note">
          <span>
            <strong>The plan as of revision {past}</strong>
            {at ? <>, {new Date(at * 1000).toLocaleString("en-GB")}</> : null}. It has gone on since; nothing can be changed from here.
          </span>
          <button type="button" onClick={() => void look(null)}>
            Back to live
          </button>
        </div>
      )}
    </div>
  );
}
