import { Ago } from "../../parts/Ago";
import type { Editing } from "./editing";

/** Text that was set aside here, that other tabs have, or that they left when they were closed. */
export function Left({ edit }: { edit: Editing }) {
  const left = edit.left.value;
  if (left.length === 0) return null;
  return (
    <section aria-label="Text that was left" class="panel">
      <h2>Text that was not applied</h2>
      <ul class="left">
        {left.map(({ id, draft }) => (
          <li key={id}>
            <span>
              begun on rev {draft.base.rev}, <Ago at={draft.at / 1000} />
            </span>
            <button type="button" disabled={edit.isTouched.value} onClick={() => edit.takeLeft(id, draft)}>
              Go on with it here
            </button>
            <button type="button" class="grave" onClick={() => edit.forgetLeft(id)}>
              Throw it away
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
