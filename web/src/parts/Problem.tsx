import type { Refused } from "../api";

export type Fault = Pick<Refused, "summary" | "hint">;

/** What went wrong, and what to do about it. */
export function Problem({ error }: { error: Fault }) {
  return (
    <div class="problem" role="alert">
      <p>{error.summary}</p>
      {error.hint && <p class="hint">{error.hint}</p>}
    </div>
  );
}
