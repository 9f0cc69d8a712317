// A live conversation with the agent that works with a container.

import { useEffect, useRef, useState } from "preact/hooks";
import { freshId } from "../../fresh";
import { Life } from "../../parts/Life";
import { READ_ONLY_LINK } from "../../parts/may";
import { Problem } from "../../parts/Problem";
import { linkTo } from "../../routes";
import { session } from "../../session";
import { type Line, type Wire, wire } from "../../socket";
import { connecting, type Frame, lost, NOTHING, type Talk, withFrame } from "./talk";

const LINES: Record<Line, string> = {
  connecting: "connecting",
  live: "live",
  lost: "connection lost, reconnecting",
  over: "ended",
};

export function Chat({ name, agent }: { name: string; agent: string }) {
  const [words, setWords] = useState("");
  const { talk, line, send } = useTalk(name, agent, (text) => setWords((now) => (now === text ? "" : now)));
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
          Earlier messages are on <a href={linkTo(agent)}>the agent's page</a>.
        </p>
      )}
      <Life items={talk.items} label={`Conversation of ${agent}`} isLive writing={talk.writing.text} />
      <p class="quiet" role="status">
        {talk.news}
      </p>
      {talk.error && <Problem error={talk.error} />}
      {session.value.right === "read" ? (
        <p class="quiet">{READ_ONLY_LINK}</p>
      ) : (
        <MessageForm agent={agent} words={words} write={setWords} send={send} isOver={talk.ended !== ""} isBusy={talk.pending !== null} />
      )}
    </section>
  );
}

/** The conversation, and `send`, which sends one message at a time. Calls `delivered` with each confirmed message. */
function useTalk(name: string, agent: string, delivered: (text: string) => void): { talk: Talk; line: Line; send: (text: string) => void } {
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
        put(withFrame(last.current, frame, agent));
        if (frame.sent && pending !== null) delivered(pending.text);
      },
      line: (state) => {
        setLine(state);
        if (state === "connecting") put(connecting(last.current));
        if (state === "lost") put(lost(last.current));
      },
    });
    return () => own.current?.close();
  }, [name, agent]);

  const send = (text: string): void => {
    if (text.trim() === "" || last.current.pending !== null) return;
    const message = { id: freshId(), text };
    const isSent = own.current?.send({ id: message.id, text: text.trim() }) ?? false;
    const error = isSent ? null : { summary: "Not sent: there is no connection.", hint: "The page reconnects automatically. Then send the message again." };
    put({ ...last.current, pending: isSent ? message : null, error });
  };
  return { talk, line, send };
}

interface FormProps {
  agent: string;
  words: string;
  write: (words: string) => void;
  send: (words: string) => void;
  isOver: boolean;
  isBusy: boolean;
}

function MessageForm({ agent, words, write, send, isOver, isBusy }: FormProps) {
  const submit = (event: Event): void => {
    event.preventDefault();
    send(words);
  };
  return (
    <form class="say" onSubmit={submit}>
      <label for="chat-words">Message to {agent}</label>
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
        {isBusy ? "…" : "Send"}
      </button>
      <span class="quiet">
        <kbd>Enter</kbd> to send, <kbd>Shift</kbd> <kbd>Enter</kbd> for a new line
      </span>
    </form>
  );
}
