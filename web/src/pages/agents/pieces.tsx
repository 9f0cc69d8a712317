// Parts of a conversation: long texts, received messages and verdicts of hooks.

import { useState } from "preact/hooks";
import { linkTo } from "../../routes";
import "./pieces.css";
import type { Item, Told } from "./turns";

const SHOWN_LINES = 14;
const SHOWN_CHARS = 1_600;

/** A text; a long one is folded until the user expands it. `left` characters more are only in the log. */
export function Long({ text, left = 0, mono = false }: { text: string; left?: number | undefined; mono?: boolean }) {
  const [isWhole, setWhole] = useState(false);
  const lines = text.split("\n");
  const isLong = lines.length > SHOWN_LINES || text.length > SHOWN_CHARS;
  const shown = isWhole || !isLong ? text : `${lines.slice(0, SHOWN_LINES).join("\n").slice(0, SHOWN_CHARS)} …`;
  return (
    <>
      {mono ? <pre>{shown}</pre> : <div class="long">{shown}</div>}
      {isLong && (
        <button type="button" class="plain more" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show less" : lines.length > SHOWN_LINES ? `Show all ${lines.length} lines` : "Show all"}
        </button>
      )}
      {isWhole && left > 0 && <p class="quiet">… and {left.toLocaleString("en")} more characters, in the log</p>}
    </>
  );
}

/** An address, as a link if a page shows its kind. */
export function Who({ address }: { address: string }) {
  const isObject = /^(agent|task|lock|container|conflict|approval)\//.test(address);
  return isObject ? <a href={linkTo(address)}>{address}</a> : <span>{address}</span>;
}

/** A message that the agent received at the start of a turn. */
export function Message({ message }: { message: Told }) {
  return (
    <div class="talk-message" data-form={message.form}>
      <div class="talk-from">
        <span class="sign" aria-hidden="true">
          ›
        </span>
        <Who address={message.sender} />
        {message.form !== "chat" && <span class="badge">{message.form}</span>}
        {message.asks && <span class="badge">asks for an answer</span>}
        {message.delivery && message.delivery !== "queue" && <span class="badge">{message.delivery}</span>}
        {message.trust === "untrusted" && <span class="badge">untrusted</span>}
        {message.thread && <span class="badge">{message.thread}</span>}
      </div>
      <Long text={message.text} left={message.left} />
    </div>
  );
}

/** The verdict of a hook, with its name. */
export function VerdictLine({ item }: { item: Item }) {
  const decision = item.decision ?? "allow";
  const tone = item.fault || decision === "deny" ? "bad" : decision === "allow" ? "idle" : "warn";
  return (
    <div class="talk-verdict" data-tone={tone}>
      <span class="sign" aria-hidden="true">
        ◆
      </span>
      <span>
        <strong>{(item.hook ?? "").replace(/^hook\//, "hook ")}</strong> <span class="quiet">{item.point}</span>{" "}
        {item.fault ? `failed: ${item.fault}` : decision}
        {!item.fault && item.reason ? `: ${item.reason}` : ""}
        {item.arguments && <> · with <code>{JSON.stringify(item.arguments)}</code></>}
        {item.comment && <> · comment: “{item.comment}”</>}
        {item.is_last && " · ends"}
      </span>
    </div>
  );
}
