// One call: its tool and arguments, the verdicts of hooks, what it waits for, its output and its result.

import { useEffect, useState } from "preact/hooks";
import { get } from "../../api";
import { plan } from "../../log/plan";
import { Linked } from "../../parts/Linked";
import { linkTo } from "../../routes";
import { duration } from "../../words/amounts";
import { spaced, text } from "../../words/objects";
import { Long, VerdictLine } from "./pieces";
import type { Call, Item } from "./turns";

const POLL_MS = 1_000;
const LIVE_CHARS = 16_000; // Of a running command's output.
const LIVE_LINES = 200;
const LINE_CHARS = 90;
const LEFT_OUT = /\[… \d+ of \d+ bytes left out …\]/; // Written by reconciler/planloop/reconciler/effects/truncate.py.

const TONES: Record<string, string> = { Succeeded: "good", Failed: "bad", Denied: "bad", Cancelled: "warn", Unknown: "warn" };
const SIGNS: Record<string, string> = { Succeeded: "✔", Failed: "✖", Denied: "⊘", Cancelled: "⊘", Unknown: "?" };

export function CallBlock({ call, agent, isOver }: { call: Call; agent: string; isOver: boolean }) {
  const live = plan.object(call.address).value;
  const state = call.result?.state ?? (isOver ? "" : text(live?.status.state)) ?? "";
  const verdicts = call.verdicts.filter((one) => !one.is_silent);
  const approval = text(live?.status.approval);
  return (
    <div class="talk-call" data-tone={TONES[state] ?? "run"}>
      <div class="talk-call-head">
        <strong class="mono">{call.tool}</strong>
        <Short given={call.arguments} />
        <span class="talk-state">
          <span aria-hidden="true">{SIGNS[state] ?? "●"} </span>
          {stateWords(state, call)}
          {call.result?.took_s ? <span class="quiet number"> {duration(call.result.took_s)}</span> : null}
        </span>
      </div>
      <Arguments given={call.arguments} />
      {call.fault && <p class="talk-failed">{call.fault}</p>}
      {verdicts.map((one, at) => (
        <VerdictLine key={at} item={one} />
      ))}
      {call.waits && !call.result && (
        <p class="talk-waits">
          <span aria-hidden="true">◼ </span>
          <Linked words={call.waits} />
          {approval && (
            <>
              {" · "}
              <a href={linkTo(approval)}>{approval}</a>
            </>
          )}
        </p>
      )}
      {state === "Unknown" && (
        <p class="talk-waits">
          The outcome is unknown. <a href="/approvals">Decide whether it ran</a>
        </p>
      )}
      {call.result?.violation && <p class="talk-failed">It {call.result.violation}.</p>}
      {call.result ? !isInVerdict(call) && <Result item={call.result} /> : state === "Started" && <LiveOutput op={text(live?.spec.op)} agent={agent} />}
    </div>
  );
}

/** Whether the result only repeats the reason of a hook that denied the call. */
function isInVerdict(call: Call): boolean {
  const reason = call.result?.state === "Denied" ? (call.result.text ?? "") : "";
  return reason !== "" && call.verdicts.some((one) => one.decision === "deny" && one.reason && reason.endsWith(one.reason));
}

function stateWords(state: string, call: Call): string {
  if (state === "Succeeded") return call.result?.is_cached ? "ok, cached" : "ok";
  if (state === "") return call.verdicts.some((one) => one.decision === "deny") ? "denied" : "cancelled";
  const error = call.result?.error ?? "";
  const more = error && error !== state ? `, ${spaced(error)}` : "";
  const code = call.result?.exit_code ? ` (exit ${call.result.exit_code})` : "";
  return spaced(state) + more + code;
}

/** Short arguments, on the call's own line. */
function Short({ given }: { given: Record<string, unknown> }) {
  if (isSmall(given)) {
    const words = Object.values(given).map((one) => (typeof one === "string" ? one : JSON.stringify(one)));
    return <code class="talk-short">{words.join(" · ")}</code>;
  }
  return null;
}

/** All arguments by name, if they do not fit on the call's own line. */
function Arguments({ given }: { given: Record<string, unknown> }) {
  if (isSmall(given)) return null;
  return (
    <dl class="facts talk-arguments">
      {Object.entries(given).map(([name, value]) => {
        const shown = typeof value === "string" ? value : JSON.stringify(value, null, 1);
        return [
          <dt key={`${name}.`}>{name || "arguments"}</dt>,
          <dd key={name}>{shown.includes("\n") || shown.length > LINE_CHARS ? <Long text={shown} mono /> : <code>{shown}</code>}</dd>,
        ];
      })}
    </dl>
  );
}

function isSmall(given: Record<string, unknown>): boolean {
  const words = Object.values(given).map((one) => (typeof one === "string" ? one : JSON.stringify(one) ?? ""));
  return words.join(" · ").length <= LINE_CHARS && !words.some((one) => one.includes("\n"));
}

function Result({ item }: { item: Item }) {
  const [whole, setWhole] = useState<string | undefined>();
  if (!item.text && !item.blob) return null;
  const read = async (): Promise<void> => setWhole((await get<{ text: string }>(`blobs/${item.blob}`)).text);
  return (
    <>
      {(whole ?? item.text) && <Long text={whole ?? item.text ?? ""} left={item.left} mono />}
      {item.blob && whole === undefined && (LEFT_OUT.test(item.text ?? "") || item.left) && (
        <button type="button" class="plain more" onClick={() => void read()}>
          Show the full output
        </button>
      )}
    </>
  );
}

/** The output of a running command so far; polls for more while the page is visible. */
function LiveOutput({ op, agent }: { op: string; agent: string }) {
  const [printed, setPrinted] = useState("");
  useEffect(() => {
    if (op === "") return;
    let isGone = false;
    let next = 0;
    let timer = 0;
    const poll = async (): Promise<void> => {
      const answer = document.hidden ? undefined : await get<{ text: string; next: number }>(`output/${op}`, { after: next }).catch(() => undefined);
      if (isGone) return;
      if (answer?.text) {
        next = answer.next;
        setPrinted((before) => (before + answer.text).slice(-LIVE_CHARS));
      }
      timer = window.setTimeout(() => void poll(), POLL_MS);
    };
    void poll();
    return () => {
      isGone = true;
      window.clearTimeout(timer);
    };
  }, [op]);
  if (!printed) return null;
  const lines = printed.split("\n");
  const isCut = lines.length > LIVE_LINES || printed.length >= LIVE_CHARS;
  return (
    <>
      {isCut && <p class="quiet">… the newest lines. The full output follows when the command ends.</p>}
      <pre class="talk-live" role="log" aria-label={`Output of ${agent}'s running command`} tabIndex={0}>
        {lines.slice(-LIVE_LINES).join("\n")}
      </pre>
    </>
  );
}
