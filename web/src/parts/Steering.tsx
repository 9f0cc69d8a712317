// The buttons that pause, resume and cancel a task. Each shows its effect and asks for confirmation.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { post, type Refused, refusedOf } from "../api";
import type { components } from "../api-types";
import { isFocusLost } from "../focus";
import type { Resource } from "../log/record";
import { stateOf } from "../words/objects";
import { Does } from "./Changes";
import { Confirm } from "./Confirm";
import { readOnlyReason } from "./may";
import { Problem } from "./Problem";
import { type Act, actsOf } from "./steers";
import { heldOrDone, refusal, type Verdict } from "./verdict";

type Preview = components["schemas"]["Preview"];

const TEXTS: Record<Act, { button: string; action: string; did: string; effect: string }> = {
  pause: {
    button: "Pause",
    action: "Pause",
    did: "paused",
    effect: "The task keeps its work. Running commands finish. Nothing new starts until you resume it.",
  },
  resume: { button: "Resume", action: "Resume", did: "resumed", effect: "The task continues where it stopped. Its failed parts run again." },
  cancel: {
    button: "Cancel",
    action: "Cancel the task",
    did: "cancelled",
    effect: "Running commands are stopped, agents end and locks are released. The task stays in the plan with its results. You can resume it.",
  },
};

/** The buttons for `task`, after `children`. None if the page is read-only. */
export function Steering({ task, children }: { task: Resource; children?: ComponentChildren }) {
  const [asked, setAsked] = useState<Act | null>(null);
  const [news, setNews] = useState("");
  const group = useRef<HTMLDivElement>(null);
  const wasAsked = useRef(false);
  const hadFocus = wasAsked.current || group.current?.contains(document.activeElement) === true;
  wasAsked.current = asked !== null;
  // A removed button loses the focus, immediately or when its dialog closes: focus the first remaining button.
  useLayoutEffect(() => {
    if (hadFocus && isFocusLost()) group.current?.querySelector("button")?.focus();
  });
  if (readOnlyReason()) return null;
  const label = (act: Act): string => (act === "resume" && stateOf(task) === "failed" ? "Run again" : TEXTS[act].button);
  const [toggle, ...others] = actsOf(task);
  return (
    <div ref={group} class="toolbar steering" role="group" aria-label="Actions">
      <span class="quiet" role="status">
        {news}
      </span>
      {children}
      {/* One button for pausing and resuming, so that it keeps the focus. */}
      {toggle && (
        <button key="toggle" type="button" onClick={() => setAsked(toggle)}>
          {label(toggle)}
        </button>
      )}
      {others.map((act) => (
        <button key={act} type="button" class="grave" onClick={() => setAsked(act)}>
          {label(act)}
        </button>
      ))}
      {asked && <Ask key={asked} act={asked} task={task} onClose={() => setAsked(null)} onDone={setNews} />}
    </div>
  );
}

/** The dialog before a task is paused, resumed or cancelled, with the effect on each object. */
function Ask({ act, task, onClose, onDone }: { act: Act; task: Resource; onClose: () => void; onDone: (news: string) => void }) {
  const [reason, setReason] = useState("");
  const [preview, setPreview] = useState<Preview | undefined>();
  const [error, setError] = useState<Refused | undefined>();
  const body = { do: act, what: [task.address] };
  useEffect(() => {
    post<Preview>("steer", { ...body, dry_run: true }).then(setPreview, (refused) => setError(refusedOf(refused)));
  }, []);
  const { button, action, did, effect } = TEXTS[act];
  const name = task.address === "task/." ? "the whole plan" : task.address;
  const problem = error ?? (preview?.verdict === "refused" ? refusal(preview.faults) : undefined);
  return (
    <Confirm
      title={`${button} ${name}?`}
      action={action}
      grave={act === "cancel"}
      onClose={onClose}
      onConfirm={async () => onDone(heldOrDone(await post<Verdict>("steer", { ...body, reason }), did))}
    >
      <p>{effect}</p>
      {problem && <Problem error={problem} />}
      {preview && <Does does={preview.does ?? []} summary={preview.summary ?? ""} />}
      {preview?.hold && <p class="problem">Needs approval: {preview.hold}</p>}
      <label>
        Reason <span class="quiet">for the history and the affected agents</span>
        <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
    </Confirm>
  );
}
