import { count } from "../../words/amounts";
import type { Editing } from "./editing";
import type { Look } from "./said";

/** What others changed in the live plan since the text was begun. Apply keeps it anyway. */
export function Others({ edit, look }: { edit: Editing; look: Look }) {
  const { others } = look;
  if (!edit.isTouched.value || others.count === 0) return null;
  const isOpen = look.clashes.some((clash) => clash.taken === null);
  return (
    <section aria-label="Changed meanwhile" class="panel">
      <h2>Changed meanwhile by others</h2>
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
      <p class="hint">What you apply is merged with it; nothing of it is lost.</p>
      <button type="button" disabled={!look.is_sound || isOpen || edit.asking.value !== "no"} onClick={() => void edit.merge()}>
        Merge into my text
      </button>
      {!look.is_sound && <span class="hint"> once the text has no faults</span>}
      {isOpen && <span class="hint"> once each conflict is chosen</span>}
    </section>
  );
}

const SIGNS: Record<string, string> = { add: "+", remove: "-", replace: "~" };
