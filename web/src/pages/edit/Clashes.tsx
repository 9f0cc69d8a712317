import type { Editing } from "./editing";
import type { Clash, Look, Side, Span } from "./said";

/** Where the text and the live plan both changed the same: what it was, what each made of it, and which is to be. */
export function Clashes({ edit, look, show }: { edit: Editing; look: Look; show: (span: Span) => void }) {
  if (look.clashes.length === 0) return null;
  return (
    <section aria-label="Conflicts">
      <h2>Conflicts</h2>
      <p class="hint">You and somebody else changed the same. Choose for each; nothing is applied before.</p>
      {look.clashes.map((clash) => (
        <One key={clash.id} clash={clash} choose={(side) => edit.choose(clash.id, side)} show={show} />
      ))}
    </section>
  );
}

interface Props {
  clash: Clash;
  choose: (side: Side) => void;
  show: (span: Span) => void;
}

function One({ clash, choose, show }: Props) {
  const { place } = clash;
  return (
    <fieldset class="clash" data-taken={clash.taken ?? "none"}>
      <legend class="mono">{clash.at}</legend>
      <div class="sides">
        <div>
          <h3>It was</h3>
          <Value text={clash.base} />
        </div>
        <Choice clash={clash} side="mine" choose={choose} label="Mine" />
        <Choice clash={clash} side="live" choose={choose} label="Live" by={clash.by ? `by ${clash.by}, rev ${clash.rev}` : ""} />
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
  clash: Clash;
  side: Side;
  choose: (side: Side) => void;
  label: string;
  by?: string;
}

function Choice({ clash, side, choose, label, by = "" }: ChoiceProps) {
  return (
    <div>
      <label>
        <input type="radio" name={`clash-${clash.id}`} checked={clash.taken === side} onChange={() => choose(side)} /> {label}
      </label>
      <Value text={clash[side]} />
      {by && <span class="quiet">{by}</span>}
    </div>
  );
}

function Value({ text }: { text: string | null }) {
  return text === null ? <p class="quiet">nothing there</p> : <pre>{text}</pre>;
}
