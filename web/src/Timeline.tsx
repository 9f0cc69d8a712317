// The timeline: a slider over the log's revisions. At a past revision the page is read-only.

import { useEffect, useRef, useState } from "preact/hooks";
import { Refused } from "./api";
import { plan } from "./log/plan";
import { clockTime } from "./words/amounts";

/** Shows the plan as of `rev`, null for live; returns an error message, or an empty string. */
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
  // The requested revision while it is fetched: the thumb stays where the user put it.
  const [wanted, setWanted] = useState<number | null>(null);
  const [error, setError] = useState("");
  const asked = useRef(0);
  const slider = useRef<HTMLInputElement>(null);
  const at = wanted ?? past ?? head;

  const seek = async (rev: number): Promise<void> => {
    const mine = ++asked.current;
    setWanted(rev);
    const failure = await look(rev >= head ? null : Math.max(1, rev));
    if (mine !== asked.current) return;
    setError(failure);
    setWanted(null);
  };

  // The browser keeps the thumb's position when `max` grows: move it, so that the newest revision is at the right end.
  useEffect(() => {
    if (slider.current !== null) slider.current.value = String(at);
  }, [at, head]);

  const last = plan.recent.value.at(-1);
  const words = at >= head ? `live, revision ${head}` : `revision ${at} of ${head}${last ? `, ${clockTime(last.at)}` : ""}`;
  return (
    <section class="timeline" aria-label="Timeline" data-past={at < head ? "" : undefined}>
      <button type="button" class="plain" aria-label="Previous revision" disabled={at <= 1} onClick={() => void seek(at - 1)}>
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
      <button type="button" class="plain" aria-label="Next revision" disabled={at >= head} onClick={() => void seek(at + 1)}>
        ›
      </button>
      <span class="timeline-words">
        {error || (last && last.rev <= at ? `rev ${at} · ${clockTime(last.at)} · ${last.type} ${last.subject}` : words)}
      </span>
    </section>
  );
}

/** The banner of a past revision, with a button that leads back to the present. */
export function PastNote() {
  const past = plan.past.value;
  const at = plan.pastAt.value;
  return (
    <div role="status">
      {past !== null && (
        <div class="past-note">
          <span>
            <strong>The plan as of revision {past}</strong>
            {at ? <>, {new Date(at * 1000).toLocaleString("en-GB")}</> : null}. The past is read-only.
          </span>
          <button type="button" onClick={() => void look(null)}>
            Back to live
          </button>
        </div>
      )}
    </div>
  );
}
