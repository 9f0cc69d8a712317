// The locks with their holders and queues, the waits between them, and deadlocks.

import { lazy, Suspense } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { post } from "../../api";
import type { components } from "../../api-types";
import { plan } from "../../log/plan";
import { Ago, Took } from "../../parts/Ago";
import { Confirm } from "../../parts/Confirm";
import { readOnlyReason } from "../../parts/may";
import { Linked } from "../../parts/Linked";
import { Problem } from "../../parts/Problem";
import { WhyNot } from "../../parts/WhyNot";
import { useRead } from "../../reading";
import { plural } from "../../words/amounts";
import { Who } from "../agents/pieces";
import { ConflictLine } from "../approvals/ConflictCard";
import "./locks.css";
import { ownersInCycle, waitWords } from "./waits";

type Waits = components["schemas"]["Waits"];
type Lock = components["schemas"]["LockState"];
type Described = components["schemas"]["Described"];

// The graph needs a layout engine, which is fetched when there is a wait.
const WaitGraph = lazy(() => import("./WaitGraph"));
const DRAWN_MAX = 120;

export default function LocksPage({ rest }: { rest: string }) {
  const [wanted, setWanted] = useState("");
  const past = plan.past.value;
  const wake = `${past} ${versions("lock")} ${versions("conflict")}`;
  const { value, error } = useRead<Waits>("waits", past === null ? {} : { at: past }, wake);
  const chosen = rest === "" || /^(lock|conflict)\//.test(rest) ? rest : `lock/${rest}`;
  const isThere = value !== undefined && [...value.locks, ...value.conflicts].some((one) => one.address === chosen);
  useEffect(() => {
    const element = document.getElementById(chosen);
    element?.scrollIntoView({ block: "nearest" });
    element?.focus({ preventScroll: true });
  }, [chosen, isThere, value !== undefined]);
  const shown = useMemo(() => {
    const word = wanted.trim().toLowerCase();
    const all = [...(value?.locks ?? [])].sort((a, b) => Number(b.holders.length > 0) - Number(a.holders.length > 0));
    return all.filter((one) => `${one.path} ${[...one.holders, ...one.waiters].map((each) => each.owner).join(" ")}`.toLowerCase().includes(word));
  }, [value, wanted]);
  const inCycle = useMemo(() => ownersInCycle(value), [value]);
  return (
    <div class="locks-page">
      <div class="toolbar">
        <h1>Locks</h1>
        <span class="quiet" role="status">
          {value && `${plural(value.locks.length, "lock")}, ${new Set(value.waits.map((one) => one.from)).size} waiting${inCycle.size > 0 ? ", deadlock" : ""}`}
        </span>
        <input type="search" aria-label="Find locks" placeholder="Find by path or owner" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
      </div>
      <WhyNot />
      {error && <Problem error={error} />}
      {value && chosen.startsWith("lock/") && !isThere && <p class="quiet">{chosen} has no holder and no waiters.</p>}
      {value && chosen.startsWith("conflict/") && !isThere && <ClosedConflict key={chosen} address={chosen} />}
      {value && value.conflicts.length > 0 && (
        <section>
          <h2>Conflicts</h2>
          <ul class="plain-list">
            {value.conflicts.map((one) => (
              <li key={one.address} id={one.address} tabIndex={-1}>
                <ConflictLine item={one} /> <span class="quiet">· {one.state} for <Took from={one.since} />{one.before && `, resolver: ${one.before === "a person" ? "a user" : one.before}`}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {value && value.waits.length > 0 && <WaitsSection value={value} inCycle={inCycle} />}
      {value && (
        <section>
          <h2>Holders and queues</h2>
          {value.locks.length === 0 ? (
            <p class="quiet">
              No locks are held. Agents take locks when they write files or call the tool <code>lock</code>. Tasks declare theirs in <code>locks</code>.
            </p>
          ) : (
            <ul class="locks">
              {shown.map((one) => (
                <LockCard key={one.address} lock={one} inCycle={inCycle} />
              ))}
            </ul>
          )}
        </section>
      )}
    </div>
  );
}

/** The description of a closed conflict. */
function ClosedConflict({ address }: { address: string }) {
  const past = plan.past.value;
  const { value, error } = useRead<Described>(`describe/${address}`, past === null ? {} : { at: past }, plan.object(address).value?.rev);
  return (
    <section id={address} tabIndex={-1} aria-label={address}>
      <p class="quiet">{address} is closed.</p>
      {error && <Problem error={error} />}
      <dl class="facts">
        {value?.facts.map((one, at) => [<dt key={`${at}.`}>{one.label}</dt>, <dd key={at}><Linked words={one.text} /></dd>])}
      </dl>
    </section>
  );
}

function WaitsSection({ value, inCycle }: { value: Waits; inCycle: ReadonlySet<string> }) {
  const owners = new Set(value.waits.flatMap((one) => [one.from, one.to]));
  return (
    <section>
      <h2>Waits</h2>
      {value.rings.map((one) => (
        <p key={one.words} class="cycle-words">
          <span aria-hidden="true">⟳ </span>
          <strong>Deadlock:</strong> {one.words}. None of them can continue until one releases its locks.
        </p>
      ))}
      {owners.size <= DRAWN_MAX ? (
        <Suspense fallback={<p class="quiet">…</p>}>
          <WaitGraph waits={value.waits} inCycle={inCycle} />
        </Suspense>
      ) : (
        <p class="quiet">Too many waits for a graph. See the list.</p>
      )}
      <ul class="waits">
        {value.waits.map((one, at) => (
          <li key={at} data-cycle={inCycle.has(one.from) && inCycle.has(one.to) ? "" : undefined}>
            <Who address={one.from} /> {waitWords(one)} <Who address={one.to} />
            {one.lock && (
              <>
                {" · "}
                <Who address={one.lock} />
              </>
            )}{" "}
            <span class="quiet">
              · <Took from={one.since} />
              {inCycle.has(one.from) && inCycle.has(one.to) ? " · deadlock" : ""}
            </span>
          </li>
        ))}
      </ul>
      {value.waits_left > 0 && <p class="quiet">and {value.waits_left} more</p>}
    </section>
  );
}

function LockCard({ lock, inCycle }: { lock: Lock; inCycle: ReadonlySet<string> }) {
  const [isAsked, setAsked] = useState(false);
  const [news, setNews] = useState("");
  const card = useRef<HTMLLIElement>(null);
  // After an unlock the button disappears and the focus with it: move the focus to the card.
  const isUnlocked = useRef(false);
  useLayoutEffect(() => {
    if (!isUnlocked.current || document.activeElement !== document.body) return;
    isUnlocked.current = false;
    card.current?.focus({ preventScroll: true });
  }, [isAsked, lock.holders.length]);
  const unlocked = (result: string): void => {
    isUnlocked.current = true;
    setNews(result);
  };
  return (
    <li class="panel lock" ref={card} id={lock.address} tabIndex={-1} aria-label={lock.address}>
      <div class="toolbar">
        <h3 class="mono">{lock.path}</h3>
        {lock.place !== lock.path && <span class="quiet mono">at {lock.place}</span>}
        <span class="quiet" role="status">
          {news}
        </span>
        {lock.holders.length > 0 && !readOnlyReason() && (
          <button type="button" class="grave lock-break" onClick={() => setAsked(true)}>
            Unlock<span class="unseen"> {lock.path}</span>
          </button>
        )}
      </div>
      <ul class="plain-list">
        {lock.holders.map((one) => (
          <li key={one.owner}>
            <span class="lock-word">held by</span> <Who address={one.owner} /> <span class="badge">{one.mode}</span>{" "}
            <span class="quiet">
              for <Took from={one.since} />, {one.until}, fence {one.fence}
            </span>
            {one.reason && <> “{one.reason}”</>}
          </li>
        ))}
        {lock.holders.length === 0 && <li class="quiet">no holder</li>}
        {lock.waiters.map((one, at) => (
          <li key={one.waiting} data-cycle={inCycle.has(one.owner) ? "" : undefined}>
            <span class="lock-word">waiter {at + 1}</span> <Who address={one.owner} /> <span class="badge">{one.mode}</span>{" "}
            <span class="quiet">
              for <Took from={one.since} />
            </span>
            {one.reason && <> “{one.reason}”</>}
          </li>
        ))}
        {lock.lost.map((one) => (
          <li key={one.owner} class="lock-lost">
            <span class="lock-word">lost by</span> <Who address={one.owner} />, {one.how === "broken" ? `unlocked by ${one.by}` : one.how} <Ago at={one.at} />
            {one.reason && <> “{one.reason}”</>}
          </li>
        ))}
      </ul>
      {isAsked && <Unlock lock={lock} onClose={() => setAsked(false)} onDone={unlocked} />}
    </li>
  );
}

function Unlock({ lock, onClose, onDone }: { lock: Lock; onClose: () => void; onDone: (news: string) => void }) {
  const [reason, setReason] = useState("");
  const owners = lock.holders.map((one) => one.owner).join(", ");
  return (
    <Confirm
      title={`Unlock ${lock.address}, held by ${owners}?`}
      action="Unlock"
      grave
      onClose={onClose}
      onConfirm={async () => {
        const answer = await post<{ rev: number; owners: string[]; commands: string[] }>("unlock", { lock: lock.address, reason });
        const warning = answer.commands.length > 0 ? ` The command of ${answer.commands.join(", ")} continues and may still write there.` : "";
        onDone(`Released from ${answer.owners.join(", ")}, rev ${answer.rev}.${warning}`);
      }}
    >
      <p>
        {lock.waiters.length > 0 ? `The lock goes to ${lock.waiters[0]?.owner}, the first waiter.` : "No task waits for this lock."} An agent that held it gets a message and must lock it again before it can write there. A
        running command is not stopped and may still write there. Written files stay as they are.
      </p>
      <label>
        Reason <span class="quiet">for the history and the previous holders</span>
        <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
    </Confirm>
  );
}

function versions(kind: string): string {
  return [...plan.kind(kind).value.values()].map((one) => `${one.address}:${one.rev}`).join(" ");
}
