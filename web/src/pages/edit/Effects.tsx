import { linkTo } from "../../routes";
import type { GateFault, Look, Row } from "./said";

/** What the edit would do to what runs, in the words of `plan diff`: deletions first. */
export function Effects({ look }: { look: Look }) {
  const { preview } = look;
  return (
    <section aria-label="What it would do">
      <h2>What it would do</h2>
      {look.clashes.some((clash) => clash.taken === null) && <p class="hint">With yours taken in each conflict that is still open.</p>}
      {preview === null ? (
        <p class="quiet">…</p>
      ) : (
        <>
          {preview.rows.length > 0 ? <Rows rows={preview.rows} /> : <p>{preview.unmoved || "Nothing that runs is moved by it."}</p>}
          <p class="number">{preview.summary}</p>
          {preview.hold && preview.faults.length === 0 && <p class="held">It would be held until somebody approves: {preview.hold}</p>}
          <GateFaults faults={preview.faults} title="It would be refused" />
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

/** Why the gate says no, each with its cure. */
export function GateFaults({ faults, title }: { faults: readonly GateFault[]; title: string }) {
  if (faults.length === 0) return null;
  return (
    <div class="problem">
      <h3>{title}</h3>
      <ul>
        {faults.map((fault) => (
          <li key={fault.at + fault.message}>
            {fault.at && <span class="mono">{fault.at}: </span>}
            {fault.message} <span class="quiet">({fault.rule})</span>
            {fault.hint && <span class="cure">{fault.hint}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}
