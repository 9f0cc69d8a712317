// The system prompt of a turn, loaded when it is opened.

import { useEffect, useState } from "preact/hooks";
import { get, type Refused, refusedOf } from "../../api";
import { plan } from "../../log/plan";
import { Problem } from "../../parts/Problem";
import { count } from "../../words/amounts";

interface Sent {
  turn: number;
  turns: number[];
  model: string;
  tokens: number;
  text: string;
}

/** The system prompt of the agent's newest turn `turn`, or of a chosen one. */
export function SystemPrompt({ agent, turn }: { agent: string; turn: number }) {
  const [isOpen, setOpen] = useState(false);
  const [chosen, setChosen] = useState<number | null>(null);
  const [sent, setSent] = useState<Sent | null>(null);
  const [error, setError] = useState<Refused | null>(null);
  const past = plan.past.value;
  useEffect(() => setChosen(null), [agent, past]);
  useEffect(() => {
    if (!isOpen) return;
    let isWanted = true;
    const path = agent.slice(agent.indexOf("/") + 1);
    const query = { ...(chosen === null ? {} : { turn: chosen }), ...(past === null ? {} : { before: past + 1 }) };
    get<Sent>(`prompt/${path === "." ? "~" : path}`, query)
      .then((found) => {
        if (!isWanted) return;
        setSent(found);
        setError(null);
      })
      .catch((refusal: unknown) => isWanted && setError(refusedOf(refusal)));
    return () => {
      isWanted = false;
    };
  }, [agent, isOpen, chosen, past, chosen === null ? turn : 0]);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>System prompt</summary>
      {error && <Problem error={error} />}
      {sent !== null && !error && (
        <>
          <label>
            Turn{" "}
            <select value={String(sent.turn)} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
              {sent.turns.map((each) => (
                <option key={each} value={String(each)}>
                  {each}
                </option>
              ))}
            </select>
          </label>{" "}
          <span class="quiet">
            {sent.model}, about {count(sent.tokens)} tokens with the conversation
          </span>
          <pre tabIndex={0}>{sent.text}</pre>
        </>
      )}
    </details>
  );
}
