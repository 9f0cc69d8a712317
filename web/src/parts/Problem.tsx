import type { Refused } from "../api";

export type Shown = Pick<Refused, "summary" | "hint">;

/** An error and its hint. Commands in backticks are set as code. */
export function Problem({ error }: { error: Shown }) {
  return (
    <div class="problem" role="alert">
      <p>
        <WithCode text={error.summary} />
      </p>
      {error.hint && (
        <p class="hint">
          <WithCode text={error.hint} />
        </p>
      )}
    </div>
  );
}

function WithCode({ text }: { text: string }) {
  return <>{text.split(/`([^`\n]+)`/).map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>;
}
