// Pausing, resuming and cancelling a task, wherever one looks at it: each asks first, with what it would do.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { post, type Refused, refusedOf } from "../api";
import type { components } from "../api-types";
import { isFocusLost } from "../focus";
import type { Resource } from "../log/record";
import { stateOf } from "../words/objects";
import { Does } from "./Changes";
import { Confirm } from "./Confirm";
import { whyNot } from "./may";
import { Problem } from "./Problem";
import { type Act, actsOf } from "./steers";
import { heldOrDone, refusal, type Verdict } from "./verdict";

type Preview = components["schemas"]["Preview"];

const WORDS: Record<Act, { button: string; action: string; did: string; words: string }> = {
  pause: {
    button: "Pause",
    action: "Pause",
    did: "paused",
    words: "It stops at its next boundary and keeps its work. A running command goes on to its end; nothing new starts until it is resumed.",
  },
  resume: { button: "Resume", action: "Resume", did: "resumed", words: "It goes on where it stood, and what failed in it runs once more." },
  cancel: {
    button: "Cancel",
    action: "Cancel the task",
    did: "cancelled",
    words: "Running commands are stopped, agents end, locks are released. The task stays in the plan with its results, and can be resumed.",
  },
};

/** The buttons for `task` behind `children`, which are more of them; none where nothing may be changed. */
export function Steering({ task, children }: { task: Resource; children?: ComponentChildren }) {
  const [asked, setAsked] = useState<Act | null>(null);
  const [news, setNews] = useState("");
  const group = useRef<HTMLDivElement>(null);
  const wasAsked = useRef(false);
  const hadFocus = wasAsked.current || group.current?.contains(document.activeElement) === true;
  wasAsked.current = asked !== null;
  // A button whose time is over takes the focus with it, at once or when its question is answered: it goes on at the
  // first of those that are left.
  useLayoutEffect(() => {
    if (hadFocus && isFocusLost()) group.current?.querySelector("button")?.focus();
  });
  if (whyNot()) return null;
  const words = (act: Act): string => (act === "resume" && stateOf(task) === "failed" ? "Run again" : WORDS[act].button);
  const [turn, ...others] = actsOf(task);
  return (
    <div ref={group} class="toolbar steering" role="group" aria-label="Actions">
      <span class="quiet" role="status">
        {news}
      </span>
      {children}
      {/* One button for pausing and resuming, so that whoever pressed it can press it again. */}
      {turn && (
        <button key="turn" type="button" onClick={() => setAsked(turn)}>
          {words(turn)}
        </button>
      )}
      {others.map((act) => (
        <button key={act} type="button" class="grave" onClick={() => setAsked(act)}>
          {words(act)}
        </button>
      ))}
      {asked && <Ask key={asked} act={asked} task={task} onClose={() => setAsked(null)} onDone={setNews} />}
    </div>
  );
}

/** Asks before a task is paused, resumed or cancelled, with what that would do to each object. */
function Ask({ act, task, onClose, onDone }: { act: Act; task: Resource; onClose: () => void; onDone: (news: string) => void }) {
  const [reason, setReason] = useState("");
  const [preview, setPreview] = useState<Preview | undefined>();
  const [error, setError] = useState<Refused | undefined>();
  const body = { do: act, what: [task.address] };
  useEffect(() => {
    post<Preview>("steer", { ...body, dry_run: true }).then(setPreview, (fault) => setError(refusedOf(fault)));
  }, []);
  const { button, action, did, words } = WORDS[act];
  const name = task.address === "task/." ? "the whole plan" : task.address;
  const fault = error ?? (preview?.verdict === "refused" ? refusal(preview.faults) : undefined);
  return (
    <Confirm
      title={`${button} ${name}?`}
      action={action}
      grave={act === "cancel"}
      onClose={onClose}
      onConfirm={async () => onDone(heldOrDone(await post<Verdict>("steer", { ...body, reason }), did))}
    >
      <p>{words}</p>
      {fault && <Problem error={fault} />}
      {preview && <Does does={preview.does ?? []} summary={preview.summary ?? ""} />}
      {preview?.hold && <p class="problem">It would wait for a yes: {preview.hold}</p>}
      <label>
        Reason <span class="quiet">for the history and for the agents it concerns</span>
        <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
    </Confirm>
  );
}
