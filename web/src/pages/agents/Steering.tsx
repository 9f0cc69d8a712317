// The actions on an agent: interrupt it, or pause, resume and cancel its task.

import { useState } from "preact/hooks";
import { plan } from "../../log/plan";
import { Confirm } from "../../parts/Confirm";
import { Steering as TaskSteering } from "../../parts/Steering";
import { stateOf } from "../../words/objects";
import { send } from "./Composer";

const OVER = ["done", "failed", "cancelled"];

export function Steering({ agent, task }: { agent: string; task: string }) {
  const item = plan.object(task).value;
  if (item === undefined) return null;
  return <TaskSteering task={item}>{!OVER.includes(stateOf(item)) && <Interrupt agent={agent} />}</TaskSteering>;
}

function Interrupt({ agent }: { agent: string }) {
  const [isAsked, setAsked] = useState(false);
  const [news, setNews] = useState("");
  const [words, setWords] = useState("");
  return (
    <>
      <span class="quiet" role="status">
        {news}
      </span>
      <button type="button" onClick={() => setAsked(true)}>
        Interrupt
      </button>
      {isAsked && (
        <Confirm
          title={`Interrupt ${agent}?`}
          action="Interrupt"
          onClose={() => setAsked(false)}
          onConfirm={async () => {
            const answer = await send(agent, words, "interrupt", false);
            setNews(`interrupted, rev ${answer.rev}`);
          }}
        >
          <p>The agent cancels its current step, that is, the model request or the running calls, and continues with your message.</p>
          <label>
            Message
            <textarea required rows={3} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          </label>
        </Confirm>
      )}
    </>
  );
}
