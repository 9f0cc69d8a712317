// The form that sends a message to the agent, and the answers to questions.

import { useEffect, useRef, useState } from "preact/hooks";
import { post, type Refused, refusedOf } from "../../api";
import { freshId } from "../../fresh";
import { plan } from "../../log/plan";
import { Problem } from "../../parts/Problem";
import { type Answer, answerIn, type Delivery, type Keyed, keyed } from "./composing";

const DELIVERIES: [Delivery, string][] = [
  ["queue", "when idle"],
  ["steer", "at its next step"],
  ["interrupt", "now, cancel its step"],
];

interface Sent {
  rev: number;
  state: string;
  sent: { to: string; id: string; state: string; is_new: boolean }[];
}

interface Question {
  id: string;
  words: string;
}

/** Sends `text` to the agent. Calls with the same non-empty `key` send it only once. Throws Refused. */
export function send(agent: string, text: string, delivery: Delivery, asks: boolean, key = ""): Promise<Sent> {
  return post<Sent>("send", { to: [agent], text, delivery, asks, key });
}

/** The form. Removing it loses the draft and the questions: hide it where nothing can be sent. */
export function Composer({ agent, onSent }: { agent: string; onSent: () => void }) {
  const [words, setWords] = useState("");
  const [delivery, setDelivery] = useState<Delivery>("queue");
  const [asks, setAsks] = useState(false);
  const [questions, setQuestions] = useState<Question[]>([]);
  const { say, isBusy, news, error } = useSending(agent);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!words.trim()) return;
    const id = await say({ words, delivery, asks });
    if (id === null) return;
    if (asks) setQuestions((before) => [...before, { id, words }]);
    setWords((now) => (now === words ? "" : now)); // Keep what was typed during the request.
    onSent();
  };

  return (
    <form class="composer" onSubmit={submit} aria-label="Send a message">
      {questions.map((one) => (
        <Asked key={one.id} question={one} onDone={() => setQuestions((all) => all.filter((other) => other.id !== one.id))} />
      ))}
      <textarea
        aria-label={`Message to ${agent}`}
        placeholder={`Message to ${agent}`}
        rows={2}
        value={words}
        onInput={(event) => setWords(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(event);
        }}
      />
      <div class="toolbar">
        <label>
          Deliver{" "}
          <select value={delivery} onChange={(event) => setDelivery(event.currentTarget.value as Delivery)}>
            {DELIVERIES.map(([name, meaning]) => (
              <option key={name} value={name}>
                {meaning} ({name})
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={asks} onChange={(event) => setAsks(event.currentTarget.checked)} /> Ask for an answer
        </label>
        <span class="quiet composer-news" role="status">
          {news}
        </span>
        <button type="submit" class="main" disabled={isBusy || !words.trim()} title="Ctrl+Enter">
          {isBusy ? "…" : "Send"}
        </button>
      </div>
      {error && <Problem error={error} />}
    </form>
  );
}

/** `say` sends one message at a time and returns its id; null if it was rejected or another one is being sent. */
function useSending(agent: string): { say: (draft: Omit<Keyed, "key">) => Promise<string | null>; isBusy: boolean; news: string; error: Refused | null } {
  const [news, setNews] = useState("");
  const [error, setError] = useState<Refused | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isUnderWay = useRef(false); // Set immediately; `isBusy` changes only at the next render.
  const unanswered = useRef<Keyed | null>(null);
  const say = async (draft: Omit<Keyed, "key">): Promise<string | null> => {
    if (isUnderWay.current) return null;
    const message = keyed(draft, unanswered.current, freshId);
    isUnderWay.current = true;
    unanswered.current = message;
    setBusy(true);
    setError(null);
    try {
      const answer = await send(agent, message.words, message.delivery, message.asks, message.key);
      const one = answer.sent[0];
      setNews(one?.state === "ended" ? `Delivered, rev ${answer.rev}. The task has ended: the agent reads this if you resume it.` : `Delivered, rev ${answer.rev}. Agent state: ${one?.state || "new"}.`);
      unanswered.current = null;
      return one?.id ?? null;
    } catch (refusal) {
      setError(refusedOf(refusal));
      return null;
    } finally {
      isUnderWay.current = false;
      setBusy(false);
    }
  };
  return { say, isBusy, news, error };
}

/** A question that was sent from this page, and its answer. */
function Asked({ question, onDone }: { question: Question; onDone: () => void }) {
  const recent = plan.recent.value;
  // Only the newest records are loaded: keep a found answer after its record has left them.
  const [answer, setAnswer] = useState<Answer | undefined>();
  useEffect(() => {
    if (answer === undefined) setAnswer(answerIn(recent, question.id));
  }, [recent, question.id]);
  return (
    <div class="panel asked" role="status">
      <p class="quiet">You asked: {question.words}</p>
      {answer === undefined ? (
        <p>No answer yet.</p>
      ) : (
        <p class="long">
          {answer.error && `(${answer.error}) `}
          {answer.words}
        </p>
      )}
      <button type="button" class="plain" onClick={onDone}>
        Dismiss
      </button>
    </div>
  );
}
