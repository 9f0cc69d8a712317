// The form that answers one pending item: its buttons, a reason, and the result.

import type { ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import { useId, useState } from "preact/hooks";
import { type Refused, refusedOf } from "../../api";
import { Problem } from "../../parts/Problem";
import { readOnlyReason } from "../../parts/may";

export interface Choice {
  label: string;
  tone?: "main" | "grave";
  /** Whether the required fields must be filled in. Enter in a field triggers this choice. */
  needsFields?: boolean;
  /** Sends the answer; returns a sentence about its result. */
  step: (reason: string) => Promise<string>;
}

/** The result of the last answer, shown after its card is gone. */
export const lastNews = signal("");

interface Props {
  /** The address of the pending item. */
  about: string;
  choices: readonly Choice[];
  reason?: string;
  children?: ComponentChildren;
}

/** The buttons and the reason; `children` are further fields of the answer. Nothing if the page is read-only. */
export function Answer({ about, choices, reason: reasonLabel = "Reason", children }: Props) {
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Refused | null>(null);
  const [news, setNews] = useState("");
  const [isBusy, setBusy] = useState(false);
  const id = useId();
  if (readOnlyReason()) return null;

  const take = async (choice: Choice): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const result = await choice.step(reason);
      setNews(result);
      lastNews.value = `${about}: ${result}`;
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
            key={choice.label}
            type={choice.needsFields ? "submit" : "button"}
            class={choice.tone}
            disabled={isBusy}
            onClick={choice.needsFields ? undefined : () => void take(choice)}
          >
            {choice.label}
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
