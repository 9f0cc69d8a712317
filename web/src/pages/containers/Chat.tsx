// A conversation with the agent that works with a container: what it is told, says and calls, as it comes.

import { useEffect, useRef, useState } from "preact/hooks";
import { freshId } from "../../fresh";
import { Life } from "../../parts/Life";
import { Problem } from "../../parts/Problem";
import { linkTo } from "../../routes";
import { session } from "../../session";
import { type Line, type Wire, wire } from "../../socket";
import { connecting, type Frame, lost, NOTHING, type Talk, told } from "./talk";

const LINES: Record<Line, string> = {
  connecting: "connecting",
  live: "listening",
  lost: "connection lost, trying again",
  over: "ended",
};

export function Chat({ name, agent }: { name: string; agent: string }) {
  const [words, setWords] = useState("");
  const { talk, line, say } = useTalk(name, agent, (text) => setWords((now) => (now === text ? "" : now)));
  return (
    <section class="chat" aria-labelledby="chat-title">
      <div class="toolbar">
        <h2 id="chat-title">
          Chat with <a href={linkTo(agent)}>{agent}</a>
        </h2>
        <span class="quiet" role="status">
          {talk.ended || LINES[line]}
        </span>
      </div>
      {talk.isCut && (
        <p class="quiet">
          What came before is on <a href={linkTo(agent)}>the agent's page</a>.
        </p>
      )}
      <Life items={talk.items} label={`What ${agent} is told, says and does`} isLive writing={talk.writing.text} />
      <p class="quiet" role="status">
        {talk.news}
      </p>
      {talk.error && <Problem error={talk.error} />}
      {session.value.right === "read" ? (
        <p class="quiet">This link may only look.</p>
      ) : (
        <Saying agent={agent} words={words} write={setWords} say={say} isOver={talk.ended !== ""} isBusy={talk.pending !== null} />
      )}
    </section>
  );
}

/** The conversation as it comes, and `say`, which says one thing at a time; `arrived` is called with what has arrived. */
function useTalk(name: string, agent: string, arrived: (text: string) => void): { talk: Talk; line: Line; say: (text: string) => void } {
  const [talk, setTalk] = useState(NOTHING);
  const [line, setLine] = useState<Line>("connecting");
  const own = useRef<Wire | null>(null);
  const last = useRef(NOTHING);
  const put = (next: Talk): void => {
    last.current = next;
    setTalk(next);
  };
  useEffect(() => {
    own.current = wire<Frame>({
      path: () => `containers/${encodeURIComponent(name)}/chat`,
      frame: (frame) => {
        const { pending } = last.current;
        put(told(last.current, frame, agent));
        if (frame.sent && pending !== null) arrived(pending.text);
      },
      line: (state) => {
        setLine(state);
        if (state === "connecting") put(connecting(last.current));
        if (state === "lost") put(lost(last.current));
      },
    });
    return () => own.current?.close();
  }, [name, agent]);

  const say = (text: string): void => {
    if (text.trim() === "" || last.current.pending !== null) return;
    const message = { id: freshId(), text };
    const isSaid = own.current?.say({ id: message.id, text: text.trim() }) ?? false;
    const error = isSaid ? null : { summary: "there is no connection to say it on", hint: "it is made anew by itself; then say it again" };
    put({ ...last.current, pending: isSaid ? message : null, error });
  };
  return { talk, line, say };
}

interface SayingProps {
  agent: string;
  words: string;
  write: (words: string) => void;
  say: (words: string) => void;
  isOver: boolean;
  isBusy: boolean;
}

function Saying({ agent, words, write, say, isOver, isBusy }: SayingProps) {
  const submit = (event: Event): void => {
    event.preventDefault();
    say(words);
  };
  return (
    <form class="say" onSubmit={submit}>
      <label for="chat-words">Say to {agent}</label>
      <textarea
        id="chat-words"
        rows={3}
        value={words}
        disabled={isOver}
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
        }}
      />
      <button type="submit" class="main" disabled={isOver || isBusy || words.trim() === ""}>
        {isBusy ? "…" : "Say it"}
      </button>
      <span class="quiet">
        <kbd>Enter</kbd> says it, <kbd>Shift</kbd> <kbd>Enter</kbd> begins a line
      </span>
    </form>
  );
}
