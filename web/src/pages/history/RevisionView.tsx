// One revision: its effect, its changed fields, and a rollback with a preview.

import { useEffect, useState } from "preact/hooks";
import { post, type Refused, refusedOf } from "../../api";
import type { components } from "../../api-types";
import { Does, type Doing, Fields } from "../../parts/Changes";
import { Confirm } from "../../parts/Confirm";
import { readOnlyReason } from "../../parts/may";
import { Problem } from "../../parts/Problem";
import { heldOrDone, type Verdict } from "../../parts/verdict";
import { WhyNot } from "../../parts/WhyNot";
import { useRead } from "../../reading";
import { href, linkTo } from "../../routes";
import { Who } from "../agents/pieces";

type Detail = components["schemas"]["ChangeDetail"];

export function RevisionView({ rev, onClose }: { rev: string; onClose: () => void }) {
  const { value, error } = useRead<Detail>(`history/${rev}`);
  const [isAsked, setAsked] = useState(false);
  const [news, setNews] = useState("");
  return (
    <>
      <div class="toolbar">
        <h2>Revision {rev}</h2>
        {value && (
          <span class="badge" data-did={value.did}>
            {value.did}
          </span>
        )}
        <span class="history-actions">
          {value?.is_document && !readOnlyReason() && (
            <button type="button" onClick={() => setAsked(true)}>
              Roll back to here
            </button>
          )}
          <button type="button" class="plain" onClick={onClose}>
            Close
          </button>
        </span>
      </div>
      <p role="status" class="quiet">
        {news}
      </p>
      {error && <Problem error={error} />}
      {value && (
        <>
          <Facts value={value} />
          <Changes value={value} />
        </>
      )}
      <WhyNot />
      {isAsked && <RollBack rev={Number(rev)} onClose={() => setAsked(false)} onDone={setNews} />}
    </>
  );
}

/** The author, time and reason, and the related revision and approval. */
function Facts({ value }: { value: Detail }) {
  return (
    <dl class="facts">
      <dt>by</dt>
      <dd>
        <Who address={value.author} />
      </dd>
      <dt>at</dt>
      <dd class="number">{new Date(value.at * 1000).toLocaleString("en-GB")}</dd>
      {value.reason && [<dt key="r">reason</dt>, <dd key="reason">{value.reason}</dd>]}
      {value.cause !== null && [
        <dt key="c">follows</dt>,
        <dd key="cause">
          <a href={href("history", String(value.cause))}>revision {value.cause}</a>
        </dd>,
      ]}
      {value.hold && [<dt key="h">held</dt>, <dd key="hold">{value.hold}</dd>]}
      {value.approval && [
        <dt key="a">approval</dt>,
        <dd key="approval">
          <a href={linkTo(value.approval)}>{value.approval}</a>
        </dd>,
      ]}
      {value.notes.length > 0 && [<dt key="n">notes</dt>, <dd key="notes">{value.notes.join("; ")}</dd>]}
    </dl>
  );
}

/** The effect on objects and fields, or the reasons for a refusal. */
function Changes({ value }: { value: Detail }) {
  return (
    <>
      {value.faults.map((one) => (
        <div key={one.text} class="problem">
          <p>{one.text}</p>
          {one.hint && <p class="hint">{one.hint}</p>}
        </div>
      ))}
      {value.does.length > 0 && <h3>{value.is_document ? "Effect" : "Effect if it had been applied"}</h3>}
      <Does does={value.does} left={value.does_left} summary={value.summary} />
      {value.fields.length > 0 && <h3>Fields</h3>}
      <Fields fields={value.fields} left={value.fields_left} whole="plan history -o json" />
      {value.does.length === 0 && value.fields.length === 0 && value.faults.length === 0 && <p>{value.what}</p>}
    </>
  );
}

interface Preview {
  verdict: string;
  does?: Doing[];
  summary?: string;
  hold?: string;
  notes?: string[];
  faults?: { message: string; hint: string }[];
}

/** The dialog before a rollback, with its effect. If the rollback needs approval, the user can approve it here. */
function RollBack({ rev, onClose, onDone }: { rev: number; onClose: () => void; onDone: (news: string) => void }) {
  const [preview, setPreview] = useState<Preview | undefined>();
  const [error, setError] = useState<Refused | undefined>();
  const [reason, setReason] = useState("");
  const [isApproved, setApproved] = useState(false);
  useEffect(() => {
    post<Preview>("rollback", { rev, dry_run: true }).then(setPreview, (refusal) => setError(refusedOf(refusal)));
  }, [rev]);
  const isSame = preview !== undefined && (preview.does ?? []).length === 0 && !preview.hold && preview.verdict === "preview";
  return (
    <Confirm
      title={`Roll back to revision ${rev}?`}
      action={preview?.hold && !isApproved ? "Request approval" : "Roll back"}
      grave
      onClose={onClose}
      onConfirm={async () => onDone(heldOrDone(await post<Verdict>("rollback", { rev, reason, is_approved: isApproved }), `Rolled back to revision ${rev}`))}
    >
      <p>
        This creates a new revision with the plan of revision {rev}. The plan file does not change, and planloop ignores it until you edit it. To write the old plan into the file, run{" "}
        <code>plan pull</code>.
      </p>
      {error && <Problem error={error} />}
      {preview === undefined && !error && <p class="quiet">Loading the effect …</p>}
      {preview && <Does does={preview.does ?? []} summary={preview.summary ?? ""} />}
      {isSame && <p>No running object changes.</p>}
      {(preview?.faults ?? []).map((one) => (
        <div key={one.message} class="problem">
          <p>{one.message}</p>
          {one.hint && <p class="hint">{one.hint}</p>}
        </div>
      ))}
      {preview?.hold && (
        <>
          <p>Needs approval: {preview.hold}</p>
          <label>
            <input type="checkbox" class="inline" checked={isApproved} onChange={(event) => setApproved(event.currentTarget.checked)} /> Approve it now
          </label>
        </>
      )}
      <label>
        Reason <span class="quiet">for the history</span>
        <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
    </Confirm>
  );
}
