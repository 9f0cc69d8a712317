import { count } from "../../words/amounts";
import type { Editing } from "./editing";
import { FIX_FIRST, hasOpenConflict, type Look, RESOLVE_FIRST } from "./api";

/** Changes by others in the live plan since this text was started. Applying keeps them. */
export function Others({ edit, look }: { edit: Editing; look: Look }) {
  const { others } = look;
  if (!edit.isTouched.value || others.count === 0) return null;
  const isOpen = hasOpenConflict(look);
  return (
    <section aria-label="Changes by others" class="panel">
      <h2>Changes by others since you started</h2>
      <ul class="changes">
        {others.changes.map((one) => (
          <li key={one.path}>
            <span class="mono">
              {SIGNS[one.op] ?? "~"} {one.at}
            </span>{" "}
            {one.by && <span class="quiet">by {one.by}, rev {one.rev}</span>}
            {one.value !== null && <pre>{one.value}</pre>}
          </li>
        ))}
      </ul>
      {others.count > others.changes.length && <p class="quiet">and {count(others.count - others.changes.length)} more</p>}
      <p class="hint">Applying merges your text with these changes and keeps them.</p>
      <button type="button" disabled={!look.is_sound || isOpen || edit.asking.value !== "no"} onClick={() => void edit.merge()}>
        Merge into my text
      </button>
      {!look.is_sound && <span class="hint"> {FIX_FIRST}</span>}
      {isOpen && <span class="hint"> {RESOLVE_FIRST}</span>}
    </section>
  );
}

const SIGNS: Record<string, string> = { add: "+", remove: "-", replace: "~" };
