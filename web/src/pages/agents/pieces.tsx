// Pieces of a conversation: texts that may be long, what the agent was told, and what its hooks said.

import { useState } from "preact/hooks";
import { linkTo } from "../../routes";
import "./pieces.css";
import type { Item, Told } from "./turns";

const SHOWN_LINES = 14;
const SHOWN_CHARS = 1_600;

/** A text as it was written; of a long one the beginning, and the rest when asked for. */
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
          {isWhole ? "Less" : lines.length > SHOWN_LINES ? `All ${lines.length} lines` : "All of it"}
        </button>
      )}
      {isWhole && left > 0 && <p class="quiet">… and {left.toLocaleString("en")} more characters, in the log</p>}
    </>
  );
}

/** An address as a link where there is a page for it. */
export function Who({ address }: { address: string }) {
  const isObject = /^(agent|task|lock|container|conflict|approval)\//.test(address);
  return isObject ? <a href={linkTo(address)}>{address}</a> : <span>{address}</span>;
}

/** What the agent was told as the turn began. */
export function Message({ told }: { told: Told }) {
  return (
    <div class="talk-told" data-form={told.form}>
      <div class="talk-from">
        <span class="sign" aria-hidden="true">
          ›
        </span>
        <Who address={told.sender} />
        {told.form !== "chat" && <span class="badge">{told.form}</span>}
        {told.asks && <span class="badge">asks</span>}
        {told.delivery && told.delivery !== "queue" && <span class="badge">{told.delivery}</span>}
        {told.trust === "untrusted" && <span class="badge">from outside</span>}
        {told.thread && <span class="badge">{told.thread}</span>}
      </div>
      <Long text={told.text} left={told.left} />
    </div>
  );
}

/** What a hook said: labelled with its name, beside what it is about. */
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
        {item.fault ? `broke: ${item.fault}` : decision}
        {!item.fault && item.reason ? `: ${item.reason}` : ""}
        {item.arguments && <> · with <code>{JSON.stringify(item.arguments)}</code></>}
        {item.comment && <> · says “{item.comment}”</>}
        {item.is_last && " · quits"}
      </span>
    </div>
  );
}
