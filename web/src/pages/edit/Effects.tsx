import { linkTo } from "../../routes";
import { type GateError, hasOpenConflict, type Look, type Row } from "./api";

/** The effect of the edit, as `plan diff` prints it: deletions first. */
export function Effects({ look }: { look: Look }) {
  const { preview } = look;
  return (
    <section aria-label="Effect">
      <h2>Effect</h2>
      {hasOpenConflict(look) && <p class="hint">With your value for each open conflict.</p>}
      {preview === null ? (
        <p class="quiet">…</p>
      ) : (
        <>
          {preview.rows.length > 0 ? <Rows rows={preview.rows} /> : <p>{preview.unmoved || "No running object changes."}</p>}
          <p class="number">{preview.summary}</p>
          {preview.hold && preview.faults.length === 0 && <p class="held">Needs approval: {preview.hold}</p>}
          <GateErrors errors={preview.faults} title="This edit will be rejected" />
          {preview.notes.map((note) => (
            <p class="hint" key={note}>
              {note}
            </p>
          ))}
        </>
      )}
    </section>
  );
}

export function Rows({ rows }: { rows: readonly Row[] }) {
  return (
    <ul class="effects">
      {rows.map((row) => (
        <li key={row.address} data-sign={row.sign}>
          <span class="mono" aria-hidden="true">
            {row.sign}
          </span>
          <span>
            <a href={linkTo(row.address)}>{row.name}</a> <b>{row.action}</b> {row.words}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** The reasons of the gate for rejecting an edit, each with its hint. */
export function GateErrors({ errors, title }: { errors: readonly GateError[]; title: string }) {
  if (errors.length === 0) return null;
  return (
    <div class="problem">
      <h3>{title}</h3>
      <ul>
        {errors.map((error) => (
          <li key={error.at + error.message}>
            {error.at && <span class="mono">{error.at}: </span>}
            {error.message} <span class="quiet">({error.rule})</span>
            {error.hint && <span class="fix">{error.hint}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}
