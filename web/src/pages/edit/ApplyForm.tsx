import { useSignal } from "@preact/signals";
import { linkTo } from "../../routes";
import { Rows, GateFaults } from "./Effects";
import type { Editing } from "./editing";
import type { Verdict } from "./said";

/** Applies the edit as it is shown, with a reason for the history, and into the file when that is asked for. */
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
          Also write it into {file}
        </label>
      )}
      <div class="toolbar">
        <button type="submit" class="main" disabled={!edit.mayApply.value}>
          {edit.asking.value === "applying" ? "Applying …" : "Apply"}
        </button>
        <span class="hint">{waitsFor(edit)}</span>
        {file && isOnlyLayout && (
          <button type="button" disabled={isBusy} onClick={() => void edit.pull()}>
            Write it into {file}
          </button>
        )}
      </div>
      <div role="status">
        {edit.news.value && <p>{edit.news.value}</p>}
        {edit.verdict.value && <Said verdict={edit.verdict.value} />}
      </div>
    </form>
  );
}

/** What is to be done before the text can be applied. */
function waitsFor(edit: Editing): string {
  const look = edit.look.value;
  if (look === null) return "";
  if (!look.is_sound) return "once the text has no faults";
  return look.clashes.some((clash) => clash.taken === null) ? "once each conflict is chosen" : "";
}

/** What the gate said. */
function Said({ verdict }: { verdict: Verdict }) {
  switch (verdict.verdict) {
    case "shown":
      return <p class="held">Nothing was done: the plan moved on, and this edit would do something else now. Look again, then apply.</p>;
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
            Held until somebody approves: {verdict.why}. <a href={linkTo(verdict.approval)}>Look at the approval</a>
          </p>
          <Rows rows={verdict.rows} />
        </>
      );
    case "refused":
      return <GateFaults faults={verdict.faults} title="Refused; what was running goes on" />;
  }
}
