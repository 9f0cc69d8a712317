// The verdict of a trial or check, and the state of a run: a coloured sign and a word.

const VERDICTS: Record<string, { sign: string; tone: string }> = {
  pass: { sign: "✔", tone: "good" },
  fail: { sign: "✖", tone: "bad" },
  error: { sign: "!", tone: "warn" },
  invalid: { sign: "?", tone: "warn" },
  running: { sign: "●", tone: "run" },
  missing: { sign: "○", tone: "idle" },
};

const STATES: Record<string, { sign: string; tone: string }> = {
  live: { sign: "●", tone: "run" },
  complete: { sign: "✔", tone: "good" },
  incomplete: { sign: "!", tone: "warn" },
  broken: { sign: "✖", tone: "bad" },
  "not begun": { sign: "○", tone: "idle" },
};

export function signOfVerdict(verdict: string): string {
  return VERDICTS[verdict]?.sign ?? "·";
}

export function toneOfVerdict(verdict: string): string {
  return VERDICTS[verdict]?.tone ?? "idle";
}

export function Verdict({ verdict }: { verdict: string }) {
  return <Sign {...(VERDICTS[verdict] ?? { sign: "·", tone: "idle" })} word={verdict} />;
}

export function RunState({ state }: { state: string }) {
  return <Sign {...(STATES[state] ?? { sign: "·", tone: "idle" })} word={state} />;
}

/** The validation of a suite or case: null if it was not validated. */
export function Valid({ valid }: { valid: boolean | null }) {
  if (valid === null) return <Sign sign="○" tone="idle" word="not validated" />;
  return valid ? <Sign sign="✔" tone="good" word="valid" /> : <Sign sign="✖" tone="bad" word="invalid" />;
}

function Sign({ sign, tone, word }: { sign: string; tone: string; word: string }) {
  return (
    <span class="status" data-tone={tone}>
      <span class="sign" aria-hidden="true">
        {sign}
      </span>
      {word}
    </span>
  );
}
