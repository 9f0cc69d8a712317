import { plan } from "../../log/plan";
import type { JsonObject } from "../../log/record";
import { href } from "../../routes";
import { session } from "../../session";

/** What became of the last save of the plan file, where that concerns whoever edits here. */
export function FileNews({ file }: { file: string }) {
  const conditions = (plan.object(`plan/${session.value.plan}`).value?.status.conditions ?? {}) as Record<string, JsonObject>;
  const said = (type: string): string => (conditions[type]?.status === "True" ? String(conditions[type].message) : "");
  const [invalid, overrode] = [said("FileInvalid"), said("FileConflict")];
  if (!invalid && !overrode) return null;
  return (
    <section aria-label="The plan file" class="panel">
      {overrode && (
        <>
          <h2>The last save of {file || "the plan file"} took over</h2>
          <ul>
            {overrode.split("; ").map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
          <p class="hint">
            The plan's <a href={href("history")}>history</a> has what it was.
          </p>
        </>
      )}
      {invalid && (
        <>
          <h2>{file || "The plan file"} has faults; what is live stays</h2>
          <pre>{invalid}</pre>
        </>
      )}
    </section>
  );
}
