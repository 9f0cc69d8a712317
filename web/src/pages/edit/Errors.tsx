import type { Look, Span, TextError } from "./api";

/** The compiler's errors and warnings, each with its hint and a button that jumps to its place. */
export function Errors({ look: { faults: found, fault_count: count }, show }: { look: Look; show: (span: Span) => void }) {
  if (found.length === 0) return null;
  const hasErrors = found.some((one) => one.severity === "error");
  return (
    <section aria-label="Errors">
      <h2>{hasErrors ? "Errors" : "Warnings"}</h2>
      <ul class="errors">
        {found.map((one, index) => (
          <li key={`${one.code}.${index}`} data-severity={one.severity}>
            <ErrorLine error={one} show={show} />
          </li>
        ))}
      </ul>
      {count > found.length && <p class="quiet">and {count - found.length} more</p>}
    </section>
  );
}

function ErrorLine({ error, show }: { error: TextError; show: (span: Span) => void }) {
  const { span } = error;
  const isHere = span !== null && span.is_here !== false;
  return (
    <>
      {isHere ? (
        <button type="button" class="plain jump" onClick={() => show(span)}>
          Line {span.start.line}
        </button>
      ) : (
        <span class="mono">{span === null ? "" : `${span.file}:${span.start.line} `}</span>
      )}
      <span>
        <b>{error.severity}</b> {error.summary} <span class="quiet">({error.code})</span>
        {error.hint && <span class="fix">{error.hint}</span>}
        {error.related.map((one) => (
          <span class="fix" key={one.message}>
            {one.message}
            {one.span && ` (line ${one.span.start.line})`}
          </span>
        ))}
      </span>
    </>
  );
}
