// Yes and no with a reason, and what came of it.

import type { ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import { useId, useState } from "preact/hooks";
import { type Refused, refusedOf } from "../../api";
import { Problem } from "../../parts/Problem";
import { whyNot } from "../../parts/may";

export interface Choice {
  words: string;
  tone?: "main" | "grave";
  /** Whether the fields beside it must be filled in; Enter in one of them is this answer. */
  needsFields?: boolean;
  /** Does it; returns what is said of it. */
  step: (reason: string) => Promise<string>;
}

/** What came of the last answer: its card is gone by then. */
export const lastNews = signal("");

interface Props {
  /** What is answered, by its address. */
  about: string;
  choices: readonly Choice[];
  reason?: string;
  children?: ComponentChildren;
}

/** The buttons of one question, with a reason; `children` are fields that belong to the answer. */
export function Answer({ about, choices, reason: reasonLabel = "Reason", children }: Props) {
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Refused | null>(null);
  const [news, setNews] = useState("");
  const [isBusy, setBusy] = useState(false);
  const id = useId();
  if (whyNot()) return null;

  const take = async (choice: Choice): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const said = await choice.step(reason);
      setNews(said);
      lastNews.value = `${about}: ${said}`;
    } catch (refusal) {
      setError(refusedOf(refusal));
    }
    setBusy(false);
  };

  return (
    <form
      class="answer"
      onSubmit={(event) => {
        event.preventDefault();
        const one = choices.find((choice) => choice.needsFields);
        if (one !== undefined) void take(one);
      }}
    >
      {children}
      <div class="toolbar">
        <label for={id} class="quiet">
          {reasonLabel}
        </label>
        <input id={id} class="answer-reason" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        {choices.map((choice) => (
          <button
            key={choice.words}
            type={choice.needsFields ? "submit" : "button"}
            class={choice.tone}
            disabled={isBusy}
            onClick={choice.needsFields ? undefined : () => void take(choice)}
          >
            {choice.words}
          </button>
        ))}
      </div>
      <p class="quiet" role="status">
        {news}
      </p>
      {error && <Problem error={error} />}
    </form>
  );
}
