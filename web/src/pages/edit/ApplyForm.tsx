import { useSignal } from "@preact/signals";
import { linkTo } from "../../routes";
import { GateErrors, Rows } from "./Effects";
import type { Editing } from "./editing";
import { FIX_FIRST, hasOpenConflict, RESOLVE_FIRST, type Verdict } from "./api";

/** The form that applies the edit, with a reason for the history, and optionally writes it to the plan file. */
export function ApplyForm({ edit }: { edit: Editing }) {
  const reason = useSignal("");
  const isIntoFile = useSignal(false);
  const file = edit.file.value;
  const isBusy = edit.asking.value !== "no";
  const isOnlyLayout = edit.isTouched.value && edit.look.value?.is_sound === true && edit.look.value.change_count === 0;

  const apply = async (event: Event): Promise<void> => {
    event.preventDefault();
    await edit.apply(reason.value, isIntoFile.value);
    if (edit.verdict.value?.verdict === "accepted") reason.value = "";
  };

  return (
    <form class="apply" onSubmit={(event) => void apply(event)} aria-label="Apply">
      <label>
        Reason
        <input name="reason" placeholder="edited" maxLength={500} value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
      </label>
      {file && (
        <label class="check">
          <input type="checkbox" checked={isIntoFile.value} onChange={(event) => (isIntoFile.value = event.currentTarget.checked)} />
          Also write to {file}
        </label>
      )}
      <div class="toolbar">
        <button type="submit" class="main" disabled={!edit.mayApply.value}>
          {edit.asking.value === "applying" ? "Applying …" : "Apply"}
        </button>
        <span class="hint">{blockedBy(edit)}</span>
        {file && isOnlyLayout && (
          <button type="button" disabled={isBusy} onClick={() => void edit.pull()}>
            Write to {file}
          </button>
        )}
      </div>
      <div role="status">
        {edit.news.value && <p>{edit.news.value}</p>}
        {edit.verdict.value && <Result verdict={edit.verdict.value} />}
      </div>
    </form>
  );
}

/** Returns what the user must do before the text can be applied; empty if nothing. */
function blockedBy(edit: Editing): string {
  const look = edit.look.value;
  if (look === null) return "";
  if (!look.is_sound) return FIX_FIRST;
  return hasOpenConflict(look) ? RESOLVE_FIRST : "";
}

/** The gate's verdict on the edit. */
function Result({ verdict }: { verdict: Verdict }) {
  switch (verdict.verdict) {
    case "shown":
      return <p class="held">Not applied: the plan has changed, so this edit now has another effect. Review the effect, then apply again.</p>;
    case "accepted":
      return (
        <>
          <Rows rows={verdict.rows} />
          {verdict.notes.map((note) => (
            <p class="hint" key={note}>
              {note}
            </p>
          ))}
        </>
      );
    case "held":
      return (
        <>
          <p class="held">
            Held for approval: {verdict.why}. <a href={linkTo(verdict.approval)}>Open the approval</a>
          </p>
          <Rows rows={verdict.rows} />
        </>
      );
    case "refused":
      return <GateErrors errors={verdict.faults} title="Rejected. The plan is unchanged." />;
  }
}
