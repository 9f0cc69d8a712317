import type { Editing } from "./editing";
import type { Conflict, Look, Side, Span } from "./api";

/** Fields that both the text and the live plan changed: the base value, both new values, and the choice. */
export function Conflicts({ edit, look, show }: { edit: Editing; look: Look; show: (span: Span) => void }) {
  if (look.clashes.length === 0) return null;
  return (
    <section aria-label="Conflicts">
      <h2>Conflicts</h2>
      <p class="hint">These fields also changed in the live plan. Choose a value for each before you apply.</p>
      {look.clashes.map((conflict) => (
        <One key={conflict.id} conflict={conflict} choose={(side) => edit.choose(conflict.id, side)} show={show} />
      ))}
    </section>
  );
}

interface Props {
  conflict: Conflict;
  choose: (side: Side) => void;
  show: (span: Span) => void;
}

function One({ conflict, choose, show }: Props) {
  const { place } = conflict;
  return (
    <fieldset class="conflict" data-taken={conflict.taken ?? "none"}>
      <legend class="mono">{conflict.at}</legend>
      <div class="sides">
        <div>
          <h3>Base</h3>
          <Value text={conflict.base} />
        </div>
        <Choice conflict={conflict} side="mine" choose={choose} label="Mine" />
        <Choice conflict={conflict} side="live" choose={choose} label="Live" by={conflict.by ? `by ${conflict.by}, rev ${conflict.rev}` : ""} />
      </div>
      {place && (
        <button type="button" class="plain jump" onClick={() => show(place)}>
          Line {place.start.line}
        </button>
      )}
    </fieldset>
  );
}

interface ChoiceProps {
  conflict: Conflict;
  side: Side;
  choose: (side: Side) => void;
  label: string;
  by?: string;
}

function Choice({ conflict, side, choose, label, by = "" }: ChoiceProps) {
  return (
    <div>
      <label>
        <input type="radio" name={`conflict-${conflict.id}`} checked={conflict.taken === side} onChange={() => choose(side)} /> {label}
      </label>
      <Value text={conflict[side]} />
      {by && <span class="quiet">{by}</span>}
    </div>
  );
}

function Value({ text }: { text: string | null }) {
  return text === null ? <p class="quiet">not set</p> : <pre>{text}</pre>;
}
