import { Ago } from "../../parts/Ago";
import type { Editing } from "./editing";

/** Drafts that were not applied: reset here, open in another tab, or left by a closed tab. */
export function LeftDrafts({ edit }: { edit: Editing }) {
  const left = edit.left.value;
  if (left.length === 0) return null;
  return (
    <section aria-label="Unapplied drafts" class="panel">
      <h2>Unapplied drafts</h2>
      <ul class="left">
        {left.map(({ id, draft }) => (
          <li key={id}>
            <span>
              based on rev {draft.base.rev}, <Ago at={draft.at / 1000} />
            </span>
            <button type="button" disabled={edit.isTouched.value} onClick={() => edit.takeLeft(id, draft)}>
              Restore
            </button>
            <button type="button" class="grave" onClick={() => edit.discardLeft(id)}>
              Discard
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
