// A state as a word, with a sign and a colour for quick scanning. Neither replaces the word.

type Tone = "run" | "good" | "bad" | "warn" | "idle";

const SIGNS: Record<string, string> = {
  running: "●", checking: "●", done: "✔", asleep: "◐", blocked: "◼", waiting: "○", new: "○",
  failed: "✖", cancelled: "⊘", paused: "‖", stopping: "◌", deleting: "◌", parked: "◼", claimed: "●",
  preparing: "◐", starting: "◐", healthy: "●", unhealthy: "◼", restarting: "◐", completed: "✔",
  removed: "○", kept: "◌", idle: "○", ended: "✔", active: "●",
};

const TONES: Record<Tone, readonly string[]> = {
  run: ["running", "checking", "claimed", "preparing", "starting", "restarting", "active"],
  good: ["done", "healthy", "completed", "ended"],
  bad: ["failed", "unhealthy"],
  warn: ["blocked", "parked", "paused", "stopping", "deleting"],
  idle: [],
};

const TONE_OF = new Map(Object.entries(TONES).flatMap(([tone, states]) => states.map((state) => [state, tone as Tone])));

export function toneOf(state: string): Tone {
  return TONE_OF.get(state) ?? "idle";
}

export function signOf(state: string): string {
  return SIGNS[state] ?? "·";
}

/** Shows `● running`. With `short`, only the sign is visible, and screen readers read the word. */
export function Status({ state, short = false }: { state: string; short?: boolean }) {
  return (
    <span class="status" data-tone={toneOf(state)}>
      <span class="sign" aria-hidden="true">
        {signOf(state)}
      </span>
      <span class={short ? "unseen" : undefined}>{state}</span>
    </span>
  );
}
