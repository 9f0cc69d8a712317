// An agent's conversation as a list: the items of client/planloop/client/presenters/conversation.py.

import { useEffect, useRef } from "preact/hooks";
import { clockTime } from "../words/amounts";
import { type Item, keysOf, lifeLabel } from "./items";
import "./life.css";

interface Props {
  items: readonly Item[];
  label: string;
  /** Whether more items follow: screen readers announce them, and the list follows its end. */
  isLive?: boolean;
  /** The reply that the model is writing; it becomes an item when it is complete. */
  writing?: string;
}

export function Life({ items, label, isLive = false, writing = "" }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const element = box.current;
    if (isLive && isAtEnd.current && element !== null) element.scrollTop = element.scrollHeight;
  }, [items, isLive, writing]);
  const look = (): void => {
    const element = box.current;
    if (element !== null) isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
  };
  const tools = new Map(items.filter((item) => item.kind === "call").map((item) => [item.call, item.tool]));
  const keys = keysOf(items);
  const lines = items.flatMap((item, at) => {
    const line = lineOf(item, item.tool || (tools.get(item.call) ?? "tool"));
    return line === null ? [] : [{ key: keys[at], item, ...line }];
  });
  return (
    <div class="life" ref={box} onScroll={look} role={isLive ? "log" : "region"} aria-label={label} tabIndex={0}>
      {lines.length === 0 && !writing ? (
        <p class="quiet">No messages yet.</p>
      ) : (
        <ol>
          {lines.map(({ key, item, who, words, tone, code }) => (
            <li key={key} data-kind={item.kind} data-tone={tone}>
              <span class="life-at number">
                <time dateTime={new Date(item.at * 1000).toISOString()}>{clockTime(item.at)}</time>
              </span>
              <span class="life-who">{who}</span>
              {code ? <pre>{words}</pre> : <span class="life-words">{words}</span>}
            </li>
          ))}
          {writing && (
            <li data-kind="said" data-tone="run" aria-live="off">
              <span class="life-at" />
              <span class="life-who">writes</span>
              <span class="life-words">{writing}</span>
            </li>
          )}
        </ol>
      )}
    </div>
  );
}

interface Line {
  who: string;
  words: string;
  tone?: string;
  code?: boolean;
}

/** Returns an item as text; null for an item that is not shown. */
function lineOf(item: Item, tool: string): Line | null {
  const left = item.left ?? 0;
  const words = (item.text ?? "") + (left > 0 ? `\n… ${left} more characters` : "");
  switch (item.kind) {
    case "turn": {
      const received = (item.told ?? []).map((one) => `${one.sender}: ${one.text}`);
      return received.length > 0 ? { who: "receives", words: received.join("\n"), tone: "run" } : null;
    }
    case "said":
      return { who: "says", words };
    case "call": {
      const shown = Object.entries(item.arguments ?? {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
      const invalid = item.fault ? [`invalid: ${item.fault}`] : [];
      return { who: `calls ${tool}`, words: [...shown, ...invalid].join("\n"), code: true };
    }
    case "result": {
      const state = item.state ?? "";
      const failure = state === "Succeeded" ? "" : `${state.toLowerCase()}${item.error ? ` (${item.error})` : ""}`;
      return { who: `${tool} ${failure || "returns"}`, words, code: true, ...(failure ? { tone: "bad" } : {}) };
    }
    case "verdict": {
      if (item.is_silent) return null;
      const why = [item.reason, item.comment, item.fault].filter(Boolean).join("; ");
      return { who: item.hook ?? "hook", words: `${item.decision}${why && `: ${why}`}`, tone: "warn" };
    }
    case "waits":
      return { who: "waits", words: item.why ?? "", tone: "warn" };
    case "failed":
      return { who: "model failed", words, tone: "bad" };
    case "ended":
      return item.called_off ? { who: "cancelled", words: item.called_off, tone: "warn" } : null;
    case "life":
      return { who: lifeLabel(item.word ?? ""), words, tone: "idle" };
    default:
      return null;
  }
}
