// One agent: its state, actions, conversation and details.

import { useState } from "preact/hooks";
import { plan } from "../../log/plan";
import type { Resource } from "../../log/record";
import { Linked } from "../../parts/Linked";
import { readOnlyReason } from "../../parts/may";
import { Status } from "../../parts/Status";
import { WhyNot } from "../../parts/WhyNot";
import { href, linkTo } from "../../routes";
import { session } from "../../session";
import { withCurrentHolders, map, pathOf, stateOf, text, whatOf } from "../../words/objects";
import { Aside } from "./Aside";
import { Composer } from "./Composer";
import { ConversationView } from "./ConversationView";
import { Steering } from "./Steering";
import { deciderLabel, ROOT_AGENT } from "./words";

export function AgentView({ address }: { address: string }) {
  const item = plan.object(address).value;
  const [toEnd, setToEnd] = useState(0);
  const task = `task/${pathOf(address)}`;
  // The composer is hidden, not removed, so that its draft survives a look at a past revision.
  return (
    <div class="agent-page">
      {item === undefined ? <NotFound address={address} /> : <Head item={item} task={task} />}
      <section class="agent-talk" aria-label={`Conversation of ${address}`} hidden={item === undefined}>
        {item && <ConversationView agent={address} toEnd={toEnd} isOpen={Boolean(map(item.status).open)} />}
        <WhyNot />
        {session.value.right === "change" && (
          <div hidden={readOnlyReason() !== ""}>
            <Composer agent={address} onSent={() => setToEnd((count) => count + 1)} />
          </div>
        )}
      </section>
      {item && (
        <aside class="agent-aside" aria-label="Details">
          <Aside item={item} task={task} />
        </aside>
      )}
    </div>
  );
}

function NotFound({ address }: { address: string }) {
  return (
    <header class="agent-head">
      <h1>{address}</h1>
      <p class="quiet">
        This agent does not exist{plan.past.value === null ? "" : " at this revision"}. <a href={href("agents")}>All agents</a>
      </p>
    </header>
  );
}

function Head({ item, task }: { item: Resource; task: string }) {
  const path = pathOf(item.address);
  const doing = withCurrentHolders(whatOf(item), (name) => plan.object(`lock/${name}`).value);
  const goal = text(plan.object(task).value?.spec.goal);
  const run = Number(item.status.incarnation ?? 0);
  return (
    <header class="agent-head">
      <div class="toolbar">
        <h1>
          <a href={href("agents")}>Agents</a> <span aria-hidden="true">/</span> {path === "." ? ROOT_AGENT : path}
        </h1>
        <Status state={stateOf(item)} />
        {run > 1 && <span class="quiet number">run {run}</span>}
        {Boolean(item.status.turn) && <span class="quiet number">turn {text(item.status.turn)}</span>}
        <span class="quiet">{deciderLabel(item)}</span>
        <Steering agent={item.address} task={task} />
      </div>
      {doing && <p class="agent-doing"><Linked words={doing} /></p>}
      <p class="quiet agent-goal">
        works on <a href={linkTo(task)}>{task}</a>
        {goal && `: ${goal}`}
      </p>
    </header>
  );
}
