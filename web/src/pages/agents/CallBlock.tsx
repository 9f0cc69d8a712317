// One call: the tool with its arguments, what hooks said of it, what it waits for, what it prints, and how it ended.

import { useEffect, useState } from "preact/hooks";
import { get } from "../../api";
import { plan } from "../../log/plan";
import { Linked } from "../../parts/Linked";
import { linkTo } from "../../routes";
import { duration } from "../../words/amounts";
import { text } from "../../words/objects";
import { Long, VerdictLine } from "./pieces";
import type { Call, Item } from "./turns";

const LOOK_MS = 1_000;
const LIVE_CHARS = 16_000; // Of what a running command prints; so much is looked at.
const LIVE_LINES = 200;
const LINE_CHARS = 90;
const LEFT_OUT = /\[… \d+ of \d+ bytes left out …\]/; // The words of reconciler/planloop/reconciler/effects/truncate.py.

const TONES: Record<string, string> = { Succeeded: "good", Failed: "bad", Denied: "bad", Cancelled: "warn", Unknown: "warn" };
const SIGNS: Record<string, string> = { Succeeded: "✔", Failed: "✖", Denied: "⊘", Cancelled: "⊘", Unknown: "?" };

export function CallBlock({ call, agent, isOver }: { call: Call; agent: string; isOver: boolean }) {
  const live = plan.object(call.address).value;
  const state = call.result?.state ?? (isOver ? "" : text(live?.status.state)) ?? "";
  const spoken = call.verdicts.filter((one) => !one.is_silent);
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
      {spoken.map((one, at) => (
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
          Nobody saw how it ended. <a href="/approvals">Say whether it happened</a>
        </p>
      )}
      {call.result?.violation && <p class="talk-failed">It {call.result.violation}.</p>}
      {call.result ? !isSaid(call) && <Result item={call.result} /> : state === "Started" && <LiveOutput op={text(live?.spec.op)} agent={agent} />}
    </div>
  );
}

/** Whether a hook's own line says already what the result says: why it was denied. */
function isSaid(call: Call): boolean {
  const said = call.result?.state === "Denied" ? (call.result.text ?? "") : "";
  return said !== "" && call.verdicts.some((one) => one.decision === "deny" && one.reason && said.endsWith(one.reason));
}

function stateWords(state: string, call: Call): string {
  if (state === "Succeeded") return call.result?.is_cached ? "ok, from memory" : "ok";
  if (state === "") return call.verdicts.some((one) => one.decision === "deny") ? "denied" : "called off";
  const words = state.replace(/(?<=.)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).toLowerCase();
  const error = call.result?.error ?? "";
  const more = error && error !== state ? `, ${error.replace(/(?<=.)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).toLowerCase()}` : "";
  const code = call.result?.exit_code ? ` (exit ${call.result.exit_code})` : "";
  return words + more + code;
}

/** What fits on the call's own line. */
function Short({ given }: { given: Record<string, unknown> }) {
  if (isSmall(given)) {
    const words = Object.values(given).map((one) => (typeof one === "string" ? one : JSON.stringify(one)));
    return <code class="talk-short">{words.join(" · ")}</code>;
  }
  return null;
}

/** All arguments, each under its name, where they do not fit on one line. */
function Arguments({ given }: { given: Record<string, unknown> }) {
  if (isSmall(given)) return null;
  return (
    <dl class="facts talk-arguments">
      {Object.entries(given).map(([name, value]) => {
        const said = typeof value === "string" ? value : JSON.stringify(value, null, 1);
        return [
          <dt key={`${name}.`}>{name || "given"}</dt>,
          <dd key={name}>{said.includes("\n") || said.length > LINE_CHARS ? <Long text={said} mono /> : <code>{said}</code>}</dd>,
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
          The whole output
        </button>
      )}
    </>
  );
}

/** What a running command has printed so far, read on while one looks. */
function LiveOutput({ op, agent }: { op: string; agent: string }) {
  const [printed, setPrinted] = useState("");
  useEffect(() => {
    if (op === "") return;
    let isGone = false;
    let next = 0;
    let timer = 0;
    const look = async (): Promise<void> => {
      const answer = document.hidden ? undefined : await get<{ text: string; next: number }>(`output/${op}`, { after: next }).catch(() => undefined);
      if (isGone) return;
      if (answer?.text) {
        next = answer.next;
        setPrinted((before) => (before + answer.text).slice(-LIVE_CHARS));
      }
      timer = window.setTimeout(() => void look(), LOOK_MS);
    };
    void look();
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
      {isCut && <p class="quiet">… the newest lines; all of it is here when the command has ended</p>}
      <pre class="talk-live" role="log" aria-label={`Output of ${agent}'s running command`} tabIndex={0}>
        {lines.slice(-LIVE_LINES).join("\n")}
      </pre>
    </>
  );
}

