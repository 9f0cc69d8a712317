// An agent's life, one thing after the other: the items of client/planloop/client/presenters/conversation.py, as a list to be read.

import { useEffect, useRef } from "preact/hooks";
import { clockTime } from "../words/amounts";
import { type Item, keysOf } from "./items";
import "./life.css";

interface Props {
  items: readonly Item[];
  label: string;
  /** Whether more comes: it is said to those who listen, and the end stays in sight for whoever is there. */
  isLive?: boolean;
  /** What is being said at this moment; it comes as an item when it is whole. */
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
  const found = items.flatMap((item, at) => {
    const told = said(item, item.tool || (tools.get(item.call) ?? "it"));
    return told === null ? [] : [{ key: keys[at], item, ...told }];
  });
  return (
    <div class="life" ref={box} onScroll={look} role={isLive ? "log" : "region"} aria-label={label} tabIndex={0}>
      {found.length === 0 && !writing ? (
        <p class="quiet">Nothing yet.</p>
      ) : (
        <ol>
          {found.map(({ key, item, who, words, tone, code }) => (
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
              <span class="life-who">is saying</span>
              <span class="life-words">{writing}</span>
            </li>
          )}
        </ol>
      )}
    </div>
  );
}

interface Said {
  who: string;
  words: string;
  tone?: string;
  code?: boolean;
}

/** An item in words; null for what says nothing to a reader. */
function said(item: Item, tool: string): Said | null {
  const left = item.left ?? 0;
  const words = (item.text ?? "") + (left > 0 ? `\n… ${left} more characters` : "");
  switch (item.kind) {
    case "turn": {
      const told = (item.told ?? []).map((one) => `${one.sender}: ${one.text}`);
      return told.length > 0 ? { who: "is told", words: told.join("\n"), tone: "run" } : null;
    }
    case "said":
      return { who: "says", words };
    case "call": {
      const shown = Object.entries(item.arguments ?? {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
      const fault = item.fault ? [`not understood: ${item.fault}`] : [];
      return { who: `calls ${tool}`, words: [...shown, ...fault].join("\n"), code: true };
    }
    case "result": {
      const state = item.state ?? "";
      const how = state === "Succeeded" ? "" : ` ${state.toLowerCase()}${item.error ? ` (${item.error})` : ""}`;
      return { who: `${tool} gives${how}`, words, code: true, ...(how ? { tone: "bad" } : {}) };
    }
    case "verdict": {
      if (item.is_silent) return null;
      const why = [item.reason, item.comment, item.fault].filter(Boolean).join("; ");
      return { who: `${item.hook} says`, words: `${item.decision}${why && `: ${why}`}`, tone: "warn" };
    }
    case "waits":
      return { who: "waits", words: item.why ?? "", tone: "warn" };
    case "failed":
      return { who: "its model failed", words, tone: "bad" };
    case "ended":
      return item.called_off ? { who: "called off", words: item.called_off, tone: "warn" } : null;
    case "life":
      return { who: item.word ?? "", words, tone: "idle" };
    default:
      return null;
  }
}
