import { plan } from "../../log/plan";
import type { JsonObject } from "../../log/record";
import { href } from "../../routes";
import { session } from "../../session";

/** Problems of the last saved plan file that concern this edit: it is invalid, or it overwrote live changes. */
export function FileNews({ file }: { file: string }) {
  const conditions = (plan.object(`plan/${session.value.plan}`).value?.status.conditions ?? {}) as Record<string, JsonObject>;
  const message = (type: string): string => (conditions[type]?.status === "True" ? String(conditions[type].message) : "");
  const [invalid, overrode] = [message("FileInvalid"), message("FileConflict")];
  if (!invalid && !overrode) return null;
  return (
    <section aria-label="The plan file" class="panel">
      {overrode && (
        <>
          <h2>{file || "The plan file"} overwrote changes in the live plan</h2>
          <ul>
            {overrode.split("; ").map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
          <p class="hint">
            The old values are in the <a href={href("history")}>history</a>.
          </p>
        </>
      )}
      {invalid && (
        <>
          <h2>{file || "The plan file"} has errors, so the live plan is unchanged</h2>
          <pre>{invalid}</pre>
        </>
      )}
    </section>
  );
}
