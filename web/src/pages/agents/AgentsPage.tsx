// The list of all agents, or one agent.

import { useMemo, useState } from "preact/hooks";
import type { Resource } from "../../log/record";
import { plan } from "../../log/plan";
import { Rows } from "../../parts/Rows";
import { Status } from "../../parts/Status";
import { href } from "../../routes";
import { plural } from "../../words/amounts";
import { withCurrentHolders, pathOf, stateOf, text, whatOf } from "../../words/objects";
import { AgentView } from "./AgentView";
import "./agents.css";
import { deciderLabel, isHookAgent, ROOT_AGENT } from "./words";

const ROW_PX = 52;

export default function AgentsPage({ rest }: { rest: string }) {
  const path = rest.replace(/^agent\//, "");
  return path === "" ? <AgentList /> : <AgentView key={path} address={`agent/${path}`} />;
}

function AgentList() {
  const [wanted, setWanted] = useState("");
  const all = plan.kind("agent").value;
  const shown = useMemo(() => {
    const word = wanted.trim().toLowerCase();
    const found = [...all.values()];
    return word === "" ? found : found.filter((one) => `${one.address} ${stateOf(one)} ${whatOf(one)}`.toLowerCase().includes(word));
  }, [all, wanted]);
  return (
    <div class="agents-page">
      <div class="toolbar">
        <h1>Agents</h1>
        <span class="quiet number" role="status">
          {shown.length === all.size ? plural(all.size, "agent") : `${shown.length} of ${plural(all.size, "agent")}`}
        </span>
        <input type="search" aria-label="Find agents" placeholder="Find by name, state or text" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
      </div>
      {all.size === 0 ? (
        <p class="quiet">
          No agents. Give a task an <code>agent</code> to see it here.
        </p>
      ) : (
        <div class="agents-rows">
          <Rows items={shown} keyOf={(one) => one.address} height={ROW_PX} label="Agents" render={(one) => <AgentRow item={one} />} />
        </div>
      )}
    </div>
  );
}

function AgentRow({ item }: { item: Resource }) {
  const path = pathOf(item.address);
  const inbox = Object.keys((item.status.inbox as object | undefined) ?? {}).length;
  return (
    <div class="agent-row">
      <div class="agent-row-first">
        <a href={href("agents", path)}>{path === "." ? ROOT_AGENT : path}</a>
        <Status state={stateOf(item)} />
        {Boolean(item.status.turn) && <span class="quiet number">turn {text(item.status.turn)}</span>}
        {isHookAgent(item.address) && <span class="badge">hook</span>}
        {inbox > 0 && <span class="badge">{plural(inbox, "message")} unread</span>}
        <span class="quiet agent-decider">{deciderLabel(item)}</span>
      </div>
      <div class="quiet agent-row-what">{withCurrentHolders(whatOf(item), (name) => plan.object(`lock/${name}`).value)}</div>
    </div>
  );
}
