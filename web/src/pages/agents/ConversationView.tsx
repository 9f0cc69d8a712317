// The conversation turn by turn, ending with the reply that the model is writing.

import { useMemo, useState } from "preact/hooks";
import { plan } from "../../log/plan";
import { lifeLabel } from "../../parts/items";
import { Problem } from "../../parts/Problem";
import { Window } from "../../parts/Window";
import { clockTime, duration, plural } from "../../words/amounts";
import { useConversation } from "./conversation";
import { CallBlock } from "./CallBlock";
import { Long, Message, VerdictLine } from "./pieces";
import { ofThread, type Stretch, stretches, threadsOf, type Turn } from "./turns";
import { Writing } from "./Writing";

const GUESS_PX = 120;

export function ConversationView({ agent, toEnd, isOpen }: { agent: string; toEnd: number; isOpen: boolean }) {
  const talk = useConversation(agent);
  const [thread, setThread] = useState("");
  const all = useMemo(() => stretches(talk.items), [talk.items]);
  const threads = useMemo(() => threadsOf(all), [all]);
  const shown = useMemo(() => ofThread(all, thread), [all, thread]);
  const head = talk.hasEarlier ? (
    <div class="talk-more">
      <button type="button" class="plain" disabled={talk.isLoading} onClick={() => void talk.earlier()}>
        {talk.isLoading ? "Loading earlier turns …" : "Earlier turns"}
      </button>
    </div>
  ) : null;
  return (
    <>
      {threads.length > 0 && (
        <div class="toolbar talk-threads">
          <label>
            Thread{" "}
            <select value={thread} onChange={(event) => setThread(event.currentTarget.value)}>
              <option value="">all messages</option>
              {threads.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        </div>
      )}
      {talk.error && <Problem error={talk.error} />}
      <Window
        items={shown}
        keyOf={(one) => one.key}
        guess={GUESS_PX}
        label="Conversation"
        labelOf={labelOf}
        toEnd={toEnd}
        onStart={talk.hasEarlier && thread === "" ? () => void talk.earlier() : undefined}
        head={head}
        tail={plan.past.value === null && isOpen ? <Writing agent={agent} items={talk.items} /> : null}
        render={(one) => <StretchView one={one} agent={agent} />}
      />
      {shown.length === 0 && !talk.isLoading && !talk.error && <p class="quiet talk-empty">No turns yet.</p>}
    </>
  );
}

function labelOf(one: Stretch): string {
  return one.kind === "turn" ? `Turn ${one.number}` : one.text;
}

function StretchView({ one, agent }: { one: Stretch; agent: string }) {
  if (one.kind === "life") {
    const label = one.word === "began" ? one.text : [lifeLabel(one.word), one.text].filter(Boolean).join(": ");
    return (
      <p class="talk-life quiet">
        <time class="number" dateTime={new Date(one.at * 1000).toISOString()}>
          {clockTime(one.at)}
        </time>{" "}
        {label}
      </p>
    );
  }
  return (
    <div class="talk-turn">
      <h2 class="talk-head">
        <span class="number">Turn {one.number}</span>{" "}
        <span class="quiet">
          <time class="number" dateTime={new Date(one.at * 1000).toISOString()}>
            {clockTime(one.at)}
          </time>{" "}
          · {one.reasons.join(", ") || "again"}
          {one.ended && ` · ${endWords(one)}`}
        </span>
      </h2>
      {one.messages.map((message) => (
        <Message key={message.id} message={message} />
      ))}
      {one.blocks.map((block) => {
        switch (block.kind) {
          case "call":
            return <CallBlock key={block.key} call={block} agent={agent} isOver={one.ended !== undefined} />;
          case "said":
            return (
              <div key={block.key} class="talk-said">
                <Long text={block.item.text ?? ""} left={block.item.left} />
              </div>
            );
          case "failed":
            return (
              <p key={block.key} class="talk-failed">
                <span aria-hidden="true">✖ </span>
                {block.item.text}
              </p>
            );
          default:
            return <VerdictLine key={block.key} item={block.item} />;
        }
      })}
    </div>
  );
}

function endWords(turn: Turn): string {
  const ended = turn.ended;
  if (ended === undefined) return "";
  if (ended.called_off) return `cancelled: ${ended.called_off}`;
  const calls = turn.blocks.filter((one) => one.kind === "call").length;
  return `${calls > 0 ? `${plural(calls, "call")}, ` : ""}${duration(ended.active_s ?? 0)}`;
}
