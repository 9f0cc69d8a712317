// The list of the plan's containers, or one with its logs and a chat with its agent.

import { useEffect } from "preact/hooks";
import { useAnswer } from "../../answer";
import { plan } from "../../log/plan";
import type { Resource } from "../../log/record";
import { Ago, Took } from "../../parts/Ago";
import { Problem } from "../../parts/Problem";
import { Status } from "../../parts/Status";
import { href, linkTo } from "../../routes";
import { conditionsOf, isBad, pathOf, stateOf, text } from "../../words/objects";
import { Chat } from "./Chat";
import "./containers.css";
import { Logs } from "./Logs";
import { headlineOf, lifeOf, neededBy, needsOf, portsOf, restartsOf, sourceOf, usersOf, whatOf } from "./words";

const FACTS_EVERY_MS = 5_000; // They contain the uptime.

export default function ContainersPage({ rest }: { rest: string }) {
  return rest ? <One key={rest} name={rest} /> : <All />;
}

function All() {
  const containers = plan.kind("container").value;
  const users = usersOf(containers, plan.kind("task").value);
  const items = [...containers.values()];
  return (
    <>
      <h1>Containers</h1>
      {items.length === 0 ? (
        <p class="quiet">
          This plan has no containers. To add one, run <code>plan explain container</code> and edit the plan.
        </p>
      ) : (
        <>
          <p role="status">{headlineOf(items)}</p>
          <div class="scroll" role="region" aria-label="All containers" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col">Container</th>
                  <th scope="col">State</th>
                  <th scope="col">Image</th>
                  <th scope="col">Ports</th>
                  <th scope="col">Uptime</th>
                  <th scope="col">Restarts</th>
                  <th scope="col">Needed by</th>
                  <th scope="col">Used by</th>
                  <th scope="col">Details</th>
                </tr>
              </thead>
              <tbody>
                {items.map((item) => (
                  <Row key={item.address} item={item} by={neededBy(item, containers)} users={users.get(item.address) ?? []} />
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </>
  );
}

function Row({ item, by, users }: { item: Resource; by: string[]; users: string[] }) {
  const life = lifeOf(item);
  return (
    <tr>
      <th scope="row" class="container-name">
        <a href={linkTo(item.address)}>{pathOf(item.address)}</a>
      </th>
      <td>
        <Status state={stateOf(item)} />
      </td>
      <td class="mono container-source">{sourceOf(item)}</td>
      <td class="number">{portsOf(item).join(", ")}</td>
      <td>{life && <Took from={life.from} until={life.until} />}</td>
      <td class="number">{restartsOf(item) || ""}</td>
      <td>
        <Names addresses={by} />
      </td>
      <td>
        <Names addresses={users} />
      </td>
      <td class="container-what">{whatOf(item)}</td>
    </tr>
  );
}

function One({ name }: { name: string }) {
  const address = `container/${name}`;
  const item = plan.object(address).value;
  const isPast = plan.past.value !== null;
  return (
    <article class="container-one" aria-labelledby="container-title">
      <nav aria-label="Breadcrumb">
        <a href={href("containers")}>All containers</a>
      </nav>
      <h1 id="container-title">
        {name} {item && <Status state={stateOf(item)} />}
      </h1>
      {item === undefined ? (
        <p class="quiet">
          {address} does not exist{isPast ? " at this revision" : ""}.
        </p>
      ) : (
        <>
          <p role="status">{whatOf(item)}</p>
          <Conditions item={item} />
          <Facts item={item} isPast={isPast} />
          {!isPast && (
            <div class="container-live">
              <Logs key={`logs ${item.uid}`} name={name} />
              <Talk item={item} name={name} />
            </div>
          )}
        </>
      )}
    </article>
  );
}

/** The conditions, and what would unblock the container. */
function Conditions({ item }: { item: Resource }) {
  const conditions = conditionsOf(item);
  const fixes = [...new Set(conditions.filter(isBad).flatMap((one) => one.unblocks))];
  return (
    <>
      {conditions.length > 0 && (
        <div class="scroll" role="region" aria-label="Conditions" tabIndex={0}>
          <table class="conditions">
            <thead>
              <tr>
                <th scope="col">Condition</th>
                <th scope="col">Status</th>
                <th scope="col">Reason</th>
                <th scope="col">Since</th>
                <th scope="col">Message</th>
              </tr>
            </thead>
            <tbody>
              {conditions.map((one) => (
                <tr key={one.type}>
                  <th scope="row">{one.type}</th>
                  <td>{one.status}</td>
                  <td>{one.reason}</td>
                  <td>{one.since > 0 && <Ago at={one.since} />}</td>
                  <td class="container-what">{one.message}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {fixes.length > 0 && (
        <>
          <h2>To unblock</h2>
          <ul>
            {fixes.map((fix) => (
              <li key={fix}>{fix.startsWith("plan ") ? <code>{fix}</code> : fix}</li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

interface Described {
  facts: { label: string; text: string }[];
}

// The page shows these elsewhere, with links.
const SHOWN_ELSEWHERE: readonly string[] = ["needs", "needed by", "changed", "unblocks"];

/** The lines of `plan describe`: settings, health, addresses, exit. */
function Facts({ item, isPast }: { item: Resource; isPast: boolean }) {
  const described = useAnswer<Described>(`describe/${item.address}`, isPast ? { at: plan.rev.value } : {});
  useEffect(() => {
    if (isPast) return;
    described.again();
    const timer = setInterval(() => !document.hidden && described.again(), FACTS_EVERY_MS);
    return () => clearInterval(timer);
  }, [item.rev, isPast]);
  const facts = described.value?.facts.filter((one) => !SHOWN_ELSEWHERE.includes(one.label)) ?? [];
  const containers = plan.kind("container").value;
  const users = usersOf(containers, plan.kind("task").value).get(item.address) ?? [];
  const needs = needsOf(item);
  const by = neededBy(item, containers);
  return (
    <section aria-labelledby="facts-title">
      <h2 id="facts-title">Details</h2>
      {described.error && <Problem error={described.error} />}
      <dl class="facts">
        {facts.map((one, at) => (
          <Fact key={`${one.label} ${at}`} name={one.label} words={one.text} />
        ))}
        {needs.length > 0 && (
          <>
            <dt>needs</dt>
            <dd>
              <ul class="plain">
                {needs.map(([address, how]) => (
                  <li key={address}>
                    <Name address={address} /> {how}
                  </li>
                ))}
              </ul>
            </dd>
          </>
        )}
        {by.length > 0 && (
          <>
            <dt>needed by</dt>
            <dd>
              <Names addresses={by} />
            </dd>
          </>
        )}
        {users.length > 0 && (
          <>
            <dt>used by</dt>
            <dd>
              <Names addresses={users} />
            </dd>
          </>
        )}
        <dt>changed</dt>
        <dd>rev {item.rev}</dd>
      </dl>
    </section>
  );
}

function Fact({ name, words }: { name: string; words: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{words}</dd>
    </>
  );
}

/** The conversation with the container's agent, if it has one. */
function Talk({ item, name }: { item: Resource; name: string }) {
  const users = usersOf(plan.kind("container").value, plan.kind("task").value).get(item.address) ?? [];
  const agents = plan.kind("agent").value;
  const agent = users.map((task) => task.replace("task/", "agent/")).find((one) => agents.has(one));
  if (agent === undefined) {
    return (
      <section aria-labelledby="chat-title">
        <h2 id="chat-title">Chat</h2>
        <p class="quiet">
          No agent uses this container. Add <code>containers: [{name}]</code> to a task with an agent.
        </p>
      </section>
    );
  }
  return <Chat key={`chat ${item.uid} ${agent}`} name={name} agent={agent} />;
}

function Names({ addresses }: { addresses: readonly string[] }) {
  if (addresses.length === 0) return null;
  return (
    <ul class="names">
      {addresses.map((address) => (
        <li key={address}>
          <Name address={address} />
        </li>
      ))}
    </ul>
  );
}

function Name({ address }: { address: string }) {
  const item = plan.object(address).value;
  return (
    <>
      <a href={linkTo(address)}>{address}</a>
      {item !== undefined && (
        <>
          {" "}
          <Status state={text(item.status.state) || stateOf(item)} short />
        </>
      )}
    </>
  );
}
