import type { Fault, Look, Span } from "./said";

/** What the compiler says of the text, each with its cure; a click goes there. */
export function Faults({ look, show }: { look: Look; show: (span: Span) => void }) {
  if (look.faults.length === 0) return null;
  const errors = look.faults.filter((fault) => fault.severity === "error").length;
  return (
    <section aria-label="Faults">
      <h2>{errors > 0 ? "Faults" : "Warnings"}</h2>
      <ul class="faults">
        {look.faults.map((fault, index) => (
          <li key={`${fault.code}.${index}`} data-severity={fault.severity}>
            <FaultLine fault={fault} show={show} />
          </li>
        ))}
      </ul>
      {look.fault_count > look.faults.length && <p class="quiet">and {look.fault_count - look.faults.length} more</p>}
    </section>
  );
}

function FaultLine({ fault, show }: { fault: Fault; show: (span: Span) => void }) {
  const { span } = fault;
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
        <b>{fault.severity}</b> {fault.summary} <span class="quiet">({fault.code})</span>
        {fault.hint && <span class="cure">{fault.hint}</span>}
        {fault.related.map((one) => (
          <span class="cure" key={one.message}>
            {one.message}
            {one.span && ` (line ${one.span.start.line})`}
          </span>
        ))}
      </span>
    </>
  );
}
