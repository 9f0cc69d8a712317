// The details of the selected object, as `plan describe` prints them: goal, state, reason, worker, needs, locks, cost.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { components } from "../../api-types";
import { plan } from "../../log/plan";
import type { JsonObject, Resource } from "../../log/record";
import { Linked } from "../../parts/Linked";
import { Address } from "../../parts/Address";
import { Ago, Took } from "../../parts/Ago";
import { Bar } from "../../parts/Bar";
import { Problem } from "../../parts/Problem";
import { signOf, Status, toneOf } from "../../parts/Status";
import { useRead } from "../../reading";
import { go, href, linkTo } from "../../routes";
import { clockTime, plural } from "../../words/amounts";
import { withCurrentHolders, callText, conditionsOf, isBad, kindOf, list, map, oneLine, pathOf, spaced, stateOf, text, unblocksOf, valueText } from "../../words/objects";
import { recent } from "../../words/records";
import { deciderLabel } from "../agents/words";
import { Actions } from "./Actions";
import { Printed } from "./Printed";
import { agents, calls, callsOf, containers, costs, locks, neededBy } from "./state";
import { ROOT } from "./tree";

const RECENT = 8;

export function Details({ address }: { address: string }) {
  const item = plan.object(address).value;
  const [last, setLast] = useState<Resource | undefined>(item);
  // Follow a renamed object by its uid; show a note for a deleted one.
  useEffect(() => {
    if (item !== undefined) {
      setLast(item);
      return;
    }
    if (last === undefined || last.address !== address) return;
    const moved = [...plan.kind(kindOf(last)).value.values()].find((one) => one.uid === last.uid);
    if (moved !== undefined) go("plan", moved.address);
  }, [item, address, plan.rev.value]);

  if (item === undefined) return <Missing address={address} last={last?.address === address ? last : undefined} />;
  return (
    <>
      <h2 class="mono">{address === ROOT ? "root task" : address}</h2>
      <p class="goal">{text(item.spec.goal)}</p>
      <p>
        <Status state={stateOf(item)} />
        {item.status.started_at ? (
          <>
            {" · "}
            <Took from={Number(item.status.started_at)} until={item.status.ended_at ? Number(item.status.ended_at) : undefined} />
          </>
        ) : null}
        {Number(item.status.incarnation ?? 0) > 1 && <> · run {text(item.status.incarnation)}</>}
      </p>
      {kindOf(item) === "task" && <Actions item={item} />}
      <Why item={item} />
      {kindOf(item) === "task" && Object.keys(item.status).length === 0 && <DescribedFacts item={item} only={["why", "unblocks"]} />}
      {map(item.spec.work).kind === "run" && <Printed item={item} />}
      {kindOf(item) === "task" ? <TaskFacts item={item} /> : <DescribedFacts item={item} />}
      <Conditions item={item} />
      <Recent item={item} />
    </>
  );
}

function Missing({ address, last }: { address: string; last: Resource | undefined }) {
  const past = plan.past.value;
  const message = past !== null ? `${address} does not exist at revision ${past}.` : last ? `${address} was deleted.` : `${address} does not exist.`;
  return (
    <>
      <h2 class="mono">{address}</h2>
      <p>{message}</p>
      {past === null && last !== undefined && (
        <p>
          <button type="button" onClick={() => void plan.look(last.rev)}>
            Show it at revision {last.rev}
          </button>
        </p>
      )}
    </>
  );
}

function Why({ item }: { item: Resource }) {
  const why = withCurrentHolders(text(item.status.why), (path) => plan.object(`lock/${path}`).value);
  const exits = unblocksOf(item);
  if (!why && exits.length === 0) return null;
  return (
    <div class="why" data-tone={exits.length > 0 ? "warn" : "idle"}>
      {why && (
        <p>
          <strong>Why</strong>{" "}
          <span class="long">
            <Linked words={why} />
          </span>
        </p>
      )}
      {exits.length > 0 && (
        <>
          <p id="unblocks">
            <strong>To unblock</strong>
          </p>
          <ul aria-labelledby="unblocks">
            {exits.map((exit) => (
              <li key={exit}>{exit.startsWith("plan ") ? <code><Linked words={exit} /></code> : <Linked words={exit} />}</li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

function TaskFacts({ item }: { item: Resource }) {
  const uses = costs.value.uses(item);
  const needs = list(item.spec.needs).map(text);
  const needed = neededBy.value.get(item.address) ?? [];
  const wanted = list(item.spec.containers).map(text);
  const result = map(item.spec.work).kind === "run" ? "" : valueText(item.status.result); // A command's output already has it.
  const owned = [...containers.value.values()].filter((one) => `task/${text(one.spec.task) || "."}` === item.address);
  return (
    <>
      {uses.length > 0 && (
        <section aria-label="Cost">
          <h3>Cost</h3>
          {uses.map((use) =>
            use.bound === undefined ? (
              <p key={use.unit}>
                <span class="quiet">{use.label}</span> <span class="number">{use.words}</span>, no limit
              </p>
            ) : (
              <Bar key={use.unit} label={use.label} used={use.used} bound={use.bound} held={use.held} words={use.words} />
            ),
          )}
        </section>
      )}
      <dl class="facts">
        <Worker item={item} />
        <Fact name="needs">{needs.length > 0 && <Addresses all={needs} />}</Fact>
        <Fact name="needed by">{needed.length > 0 && <Addresses all={needed} />}</Fact>
        <Locks item={item} />
        <Fact name="containers">{wanted.length + owned.length > 0 && <Addresses all={[...new Set([...wanted, ...owned.map((one) => one.address)])]} />}</Fact>
        <Fact name="works in">{text(item.spec.fork)}</Fact>
        <Fact name="result">{result && result !== item.status.why && <span class="long">{result}</span>}</Fact>
        <Fact name="notes">{text(item.spec.notes) && <pre>{text(item.spec.notes)}</pre>}</Fact>
      </dl>
      <Checks item={item} />
    </>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  if (!children) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Addresses({ all }: { all: readonly string[] }) {
  const shown = all.slice(0, 12);
  return (
    <ul class="bare">
      {shown.map((one) => (
        <li key={one}>
          <Address address={one} state />
        </li>
      ))}
      {all.length > shown.length && <li class="quiet">and {all.length - shown.length} more</li>}
    </ul>
  );
}

/** The command or agent that does the task, with the agent's state and open calls. */
function Worker({ item }: { item: Resource }) {
  const work = map(item.spec.work);
  if (work.kind === "run") {
    const command = text(work.shell) || list(work.argv).map(text).join(" ");
    return (
      <Fact name="runs">
        <code>{command}</code>
      </Fact>
    );
  }
  const agent = agents.value.get(text(work.agent));
  if (agent === undefined) return null;
  const open = (callsOf.value.get(agent.address) ?? []).flatMap((one) => calls.value.get(one) ?? []);
  return (
    <Fact name="agent">
      <Address address={agent.address} state />
      <div class="quiet">
        {deciderLabel(agent)}
        {agent.status.turn ? `, turn ${text(agent.status.turn)}` : ""}
        {agent.status.why ? `: ${oneLine(withCurrentHolders(text(agent.status.why), (path) => plan.object(`lock/${path}`).value))}` : ""}
      </div>
      {open.map((call) => (
        <div key={call.address}>
          <code>{callText(call.spec)}</code> <span class="quiet">{spaced(text(call.status.state))}</span>
        </div>
      ))}
    </Fact>
  );
}

/** Locks that the task or its agent holds, and locks that it waits for, with their holders. */
function Locks({ item }: { item: Resource }) {
  const own = [item.address, text(map(item.spec.work).agent)];
  const held: [string, JsonObject][] = [];
  const waited: [string, JsonObject, string[]][] = [];
  for (const lock of locks.value.values()) {
    const holders = map(lock.status.holders);
    for (const one of own) if (one && holders[one]) held.push([lock.address, map(holders[one])]);
    for (const [waiting, request] of Object.entries(map(lock.status.waiters))) {
      const owner = text(map(request).owner);
      if (own.includes(owner) || own.includes(waiting)) waited.push([lock.address, map(request), Object.keys(holders)]);
    }
  }
  return (
    <>
      <Fact name="holds">
        {held.length > 0 &&
          held.map(([address, grant]) => (
            <div key={address}>
              <Address address={address} /> ({text(grant.mode)}), <Ago at={Number(grant.since)} plain />
              {grant.reason ? `, “${text(grant.reason)}”` : ""}
            </div>
          ))}
      </Fact>
      <Fact name="waits for">
        {waited.length > 0 &&
          waited.map(([address, request, holders]) => (
            <div key={address}>
              <Address address={address} /> ({text(request.mode)}), <Ago at={Number(request.since)} plain />
              {holders.length > 0 && (
                <>
                  ; held by <Linked words={holders.join(", ")} />
                </>
              )}
            </div>
          ))}
      </Fact>
    </>
  );
}

function Checks({ item }: { item: Resource }) {
  const wanted = list(item.spec.acceptance).map(map);
  const results = map(item.status.checks);
  if (wanted.length === 0) return null;
  return (
    <section aria-label="Checks">
      <h3>Checks</h3>
      <ul class="bare">
        {wanted.map((check) => {
          const found = map(results[text(check.key)]);
          const result = text(found.result) || "not run";
          const state = result === "pass" ? "done" : result === "not run" ? "waiting" : "failed";
          const words = Object.values(map(check.arguments)).filter((one) => (typeof one === "string" && one) || typeof one === "number");
          return (
            <li key={text(check.key)}>
              <span class="sign" data-tone={toneOf(state)} aria-hidden="true">
                {signOf(state)}
              </span>{" "}
              <code>
                {text(check.kind)} {words.join(" ")}
              </code>{" "}
              <span class="quiet long">
                {result}
                {found.message ? `: ${text(found.message)}` : ""}
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Conditions({ item }: { item: Resource }) {
  const found = conditionsOf(item);
  const problems = found.filter(isBad).length;
  if (found.length === 0) return null;
  return (
    <details>
      <summary>
        Conditions <span class="quiet">({problems === 0 ? "no problems" : plural(problems, "problem")})</span>
      </summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Conditions">
        <table>
          <thead>
            <tr>
              <th scope="col">Condition</th>
              <th scope="col">Status</th>
              <th scope="col">Reason</th>
              <th scope="col">Age</th>
              <th scope="col">Message</th>
            </tr>
          </thead>
          <tbody>
            {found.map((one) => (
              <tr key={one.type} data-tone={isBad(one) ? "warn" : undefined}>
                <th scope="row">{one.type}</th>
                <td>{one.status}</td>
                <td>{one.reason}</td>
                <td>{one.since > 0 && <Ago at={one.since} plain />}</td>
                <td class="long">{one.message}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** The lines of `plan describe`, or those with a label in `only`. */
function DescribedFacts({ item, only }: { item: Resource; only?: readonly string[] }) {
  const past = plan.past.value;
  const { value, error } = useRead<components["schemas"]["Described"]>(`describe/${item.address}`, past === null ? {} : { at: past }, item.rev);
  const facts = (value?.facts ?? []).filter((fact) => only?.includes(fact.label) ?? true);
  return (
    <>
      {error && <Problem error={error} />}
      <dl class="facts">
        {facts.map((fact, at) => (
          <Fact key={at} name={fact.label}>
            <Linked words={fact.text} />
          </Fact>
        ))}
      </dl>
    </>
  );
}

function Recent({ item }: { item: Resource }) {
  const subjects = new Set([item.address, item.address.replace(/^task\//, "agent/")]);
  const found = recent(plan.recent.value, subjects, RECENT);
  return (
    <section aria-label="Recent">
      <h3>Recent</h3>
      {found.length > 0 && (
        <ul class="bare recent">
          {found.map((one, at) => (
            <li key={at}>
              <span class="number quiet">{clockTime(one.at)}</span> <span>{one.type}</span> <span class="quiet">{one.words}</span>
            </li>
          ))}
        </ul>
      )}
      <p class="quiet">
        Changed in rev {item.rev}, created in rev {item.created_rev}. <a href={href("history")}>History</a>
        {agents.value.has(`agent/${pathOf(item.address)}`) && (
          <>
            {" · "}
            <a href={linkTo(`agent/${pathOf(item.address)}`)}>Conversation</a>
          </>
        )}
      </p>
    </section>
  );
}
