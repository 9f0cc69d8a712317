// The details of an agent: problems, budget, inbox, locks, hooks, threads, rights and prompts.

import { useMemo } from "preact/hooks";
import type { Resource } from "../../log/record";
import { plan } from "../../log/plan";
import { Ago } from "../../parts/Ago";
import { Bar } from "../../parts/Bar";
import { Linked } from "../../parts/Linked";
import { Status } from "../../parts/Status";
import { linkTo } from "../../routes";
import { plural } from "../../words/amounts";
import { Costs } from "../../words/budgets";
import { withCurrentHolders, conditionsOf, isBad, list, map, nameOf, stateOf, text, unblocksOf } from "../../words/objects";
import { Long, Who } from "./pieces";
import { SystemPrompt } from "./SystemPrompt";
import { bodyWords, rightsOf } from "./words";

export function Aside({ item, task }: { item: Resource; task: string }) {
  return (
    <>
      <Problems item={item} />
      <Budget task={task} />
      <Inbox item={item} />
      <Locks owner={item.address} task={task} />
      <Hooks agent={item.address} />
      <Threads agent={item.address} />
      <Relatives agent={item.address} />
      <section>
        <h2>Rights</h2>
        <dl class="facts">
          {rightsOf(item).map(([label, value]) => [<dt key={`${label}.`}>{label}</dt>, <dd key={label}>{value}</dd>])}
        </dl>
      </section>
      {text(item.spec.prompt) && (
        <details>
          <summary>Prompt in the plan</summary>
          <pre tabIndex={0}>{text(item.spec.prompt)}</pre>
        </details>
      )}
      {map(item.spec.mind).kind === "model" && <SystemPrompt agent={item.address} turn={Number(item.status.turn ?? 0)} />}
    </>
  );
}

/** The conditions that report a problem, and what would unblock the agent. */
function Problems({ item }: { item: Resource }) {
  const bad = conditionsOf(item).filter(isBad);
  const fixes = unblocksOf(item);
  if (bad.length === 0) return null;
  return (
    <section>
      <h2>Problems</h2>
      {bad.map((one) => (
        <p key={one.type}>
          <strong>{one.reason}</strong> <Linked words={withCurrentHolders(one.message, (name) => plan.object(`lock/${name}`).value)} /> {one.since > 0 && <span class="quiet"><Ago at={one.since} /></span>}
        </p>
      ))}
      {fixes.length > 0 && (
        <>
          <p id="agent-unblocks">To unblock:</p>
          <ul class="ways" aria-labelledby="agent-unblocks">
            {fixes.map((fix) => (
              <li key={fix}>{fix.startsWith("plan ") ? <code><Linked words={fix} /></code> : <Linked words={fix} />}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Budget({ task }: { task: string }) {
  const tasks = plan.kind("task").value;
  const agents = plan.kind("agent").value;
  const costs = useMemo(() => new Costs(tasks, agents), [tasks, agents]);
  const item = tasks.get(task);
  const uses = item === undefined ? [] : costs.uses(item);
  return (
    <section>
      <h2>Budget</h2>
      {uses.length === 0 && <p class="quiet">No limits. No tokens or money used yet.</p>}
      {uses.map((use) =>
        use.bound === undefined ? (
          <p key={use.unit} class="number">
            {use.words} <span class="quiet">so far</span>
          </p>
        ) : (
          <Bar key={use.unit} label={use.label} used={use.used} bound={use.bound} held={use.held} words={use.words} />
        ),
      )}
    </section>
  );
}

function Inbox({ item }: { item: Resource }) {
  const messages = Object.values(map(item.status.inbox)).map(map);
  return (
    <section>
      <h2>Inbox</h2>
      {messages.length === 0 && <p class="quiet">No unread messages.</p>}
      <ul class="inbox">
        {messages
          .sort((a, b) => Number(a.sent_at) - Number(b.sent_at))
          .map((one) => (
            <li key={text(one.id)}>
              <div>
                <Who address={text(one.sender)} /> <span class="badge">{text(one.delivery)}</span> <span class="quiet"><Ago at={Number(one.sent_at)} /></span>
              </div>
              <Long text={bodyWords(one.body)} />
            </li>
          ))}
      </ul>
    </section>
  );
}

/** The locks that the agent or its task holds or waits for. */
function Locks({ owner, task }: { owner: string; task: string }) {
  const found: { address: string; words: string }[] = [];
  for (const lock of plan.kind("lock").value.values()) {
    for (const one of Object.values(map(lock.status.holders)).map(map)) {
      if (one.owner === owner || one.owner === task) found.push({ address: lock.address, words: `holds (${text(one.mode)})` });
    }
    for (const one of Object.values(map(lock.status.waiters)).map(map)) {
      if (one.owner === owner || one.owner === task) found.push({ address: lock.address, words: `waits for (${text(one.mode)})` });
    }
  }
  return (
    <section>
      <h2>Locks</h2>
      {found.length === 0 && <p class="quiet">No locks held or waited for.</p>}
      <ul class="plain-list">
        {found.map((one) => (
          <li key={one.address + one.words}>
            {one.words} <a href={linkTo(one.address)}>{one.address}</a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Hooks({ agent }: { agent: string }) {
  const found = [...plan.kind("hook").value.values()].filter((one) => one.spec.watches === agent);
  if (found.length === 0) return null;
  return (
    <section>
      <h2>Hooks</h2>
      <ul class="plain-list">
        {found.map((one) => (
          <li key={one.address}>
            <a href={linkTo(one.address)}>{text(one.spec.name) || nameOf(one.address)}</a> <Status state={stateOf(one)} />{" "}
            <span class="quiet">
              {list(one.spec.on).map(text).join(", ")} · asked {plural(Number(one.status.fired ?? 0), "time")}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Threads({ agent }: { agent: string }) {
  const found = [...plan.kind("thread").value.values()].filter((one) => one.spec.owner === agent || list(one.spec.speakers).includes(agent) || list(one.spec.listeners).includes(agent));
  if (found.length === 0) return null;
  return (
    <section>
      <h2>Threads</h2>
      <ul class="plain-list">
        {found.map((one) => {
          const answers = Object.values(map(one.status.answers)).map((box) => map(list(box)[0]));
          return (
            <li key={one.address}>
              <div>
                <span class="badge">{text(one.spec.kind)}</span> <span class="quiet">{one.address}</span>
              </div>
              <Long text={text(one.spec.prompt)} />
              <p class="quiet">
                {list(one.spec.speakers).map(text).join(", ")} · {plural(answers.length, "answer")}
              </p>
              {answers.map((answer, at) => (
                <blockquote key={at}>
                  <Long text={text(answer.text)} />
                </blockquote>
              ))}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Relatives({ agent }: { agent: string }) {
  const children = [...plan.kind("agent").value.values()].filter((one) => one.spec.parent === agent);
  const parent = text(plan.object(agent).value?.spec.parent);
  if (children.length === 0 && !parent) return null;
  return (
    <section>
      <h2>Parent and children</h2>
      <ul class="plain-list">
        {parent && (
          <li>
            parent <Who address={parent} />
          </li>
        )}
        {children.map((one) => (
          <li key={one.address}>
            <Status state={stateOf(one)} short /> <Who address={one.address} />
          </li>
        ))}
      </ul>
    </section>
  );
}
