// A message to the agent: when it is read, and whether an answer is waited for.

import { useEffect, useRef, useState } from "preact/hooks";
import { post, type Refused, refusedOf } from "../../api";
import { freshId } from "../../fresh";
import { plan } from "../../log/plan";
import { Problem } from "../../parts/Problem";
import { type Answer, answerIn, type Delivery, type Keyed, keyed } from "./composing";

const DELIVERIES: [Delivery, string][] = [
  ["queue", "when it would sleep"],
  ["steer", "at its next step"],
  ["interrupt", "now, stopping the step in flight"],
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

/** Sends `words`; returns what the server said of it. Without a key it is another message each time. */
export function send(agent: string, words: string, delivery: Delivery, asks: boolean, key = ""): Promise<Sent> {
  return post<Sent>("send", { to: [agent], text: words, delivery, asks, key });
}

/** What is half written, and what was asked, stays for as long as this does: hide it where nothing can be sent. */
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
    setWords((now) => (now === words ? "" : now)); // Somebody may have written on.
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
          read{" "}
          <select value={delivery} onChange={(event) => setDelivery(event.currentTarget.value as Delivery)}>
            {DELIVERIES.map(([name, said]) => (
              <option key={name} value={name}>
                {said} ({name})
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={asks} onChange={(event) => setAsks(event.currentTarget.checked)} /> wait for an answer
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

/** `say` sends one message at a time, and gives its id; null for one that was refused, or came while another is sent. */
function useSending(agent: string): { say: (draft: Omit<Keyed, "key">) => Promise<string | null>; isBusy: boolean; news: string; error: Refused | null } {
  const [news, setNews] = useState("");
  const [error, setError] = useState<Refused | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isUnderWay = useRef(false); // At once, where `isBusy` waits for a drawing.
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
      setNews(one?.state === "ended" ? `Delivered, rev ${answer.rev}. Its task is over: it reads this if the task begins again.` : `Delivered, rev ${answer.rev}; it was ${one?.state || "new"}.`);
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

/** A question that was asked from here, until it is answered. */
function Asked({ question, onDone }: { question: Question; onDone: () => void }) {
  const recent = plan.recent.value;
  // The newest records alone are known here: an answer that was found is kept when its record is no longer among them.
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
        Put away
      </button>
    </div>
  );
}
