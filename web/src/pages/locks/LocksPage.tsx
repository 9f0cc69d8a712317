// Who holds which files, who waits for them, and whether anybody waits in a ring.

import { lazy, Suspense } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { post } from "../../api";
import type { components } from "../../api-types";
import { plan } from "../../log/plan";
import { Ago, Took } from "../../parts/Ago";
import { Confirm } from "../../parts/Confirm";
import { whyNot } from "../../parts/may";
import { Linked } from "../../parts/Linked";
import { Problem } from "../../parts/Problem";
import { WhyNot } from "../../parts/WhyNot";
import { useRead } from "../../reading";
import { plural } from "../../words/amounts";
import { Who } from "../agents/pieces";
import { ConflictLine } from "../approvals/ConflictCard";
import "./locks.css";
import { ringsOf, waitWords } from "./waits";

type Waits = components["schemas"]["Waits"];
type Lock = components["schemas"]["LockState"];
type Described = components["schemas"]["Described"];

// The picture needs a layout engine, which is fetched when somebody waits.
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
  const rings = useMemo(() => ringsOf(value), [value]);
  return (
    <div class="locks-page">
      <div class="toolbar">
        <h1>Locks</h1>
        <span class="quiet" role="status">
          {value && `${plural(value.locks.length, "lock")}, ${plural(new Set(value.waits.map((one) => one.from)).size, "one waits", "wait")}${rings.size > 0 ? ", some in a ring" : ""}`}
        </span>
        <input type="search" aria-label="Find locks" placeholder="Find by path or owner" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
      </div>
      <WhyNot />
      {error && <Problem error={error} />}
      {value && chosen.startsWith("lock/") && !isThere && <p class="quiet">Nobody holds {chosen} or waits for it.</p>}
      {value && chosen.startsWith("conflict/") && !isThere && <OverConflict key={chosen} address={chosen} />}
      {value && value.conflicts.length > 0 && (
        <section>
          <h2>Conflict threads</h2>
          <ul class="plain-list">
            {value.conflicts.map((one) => (
              <li key={one.address} id={one.address} tabIndex={-1}>
                <ConflictLine item={one} /> <span class="quiet">· {one.state} for <Took from={one.since} />{one.before && `, before ${one.before}`}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {value && value.waits.length > 0 && <WaitsSection value={value} rings={rings} />}
      {value && (
        <section>
          <h2>Holders and queues</h2>
          {value.locks.length === 0 ? (
            <p class="quiet">Nobody holds a lock. Agents take them when they write, or with the tool lock; tasks name theirs.</p>
          ) : (
            <ul class="locks">
              {shown.map((one) => (
                <LockCard key={one.address} lock={one} rings={rings} />
              ))}
            </ul>
          )}
        </section>
      )}
    </div>
  );
}

/** A conflict that is open no more: a link to it says what it was and how it ended. */
function OverConflict({ address }: { address: string }) {
  const past = plan.past.value;
  const { value, error } = useRead<Described>(`describe/${address}`, past === null ? {} : { at: past }, plan.object(address).value?.rev);
  return (
    <section id={address} tabIndex={-1} aria-label={address}>
      <p class="quiet">{address} is not open{value && `: it is ${value.state}`}.</p>
      {error && <Problem error={error} />}
      <dl class="facts">
        {value?.facts.map((one, at) => [<dt key={`${at}.`}>{one.label}</dt>, <dd key={at}><Linked words={one.text} /></dd>])}
      </dl>
    </section>
  );
}

function WaitsSection({ value, rings }: { value: Waits; rings: ReadonlySet<string> }) {
  const owners = new Set(value.waits.flatMap((one) => [one.from, one.to]));
  return (
    <section>
      <h2>Who waits for whom</h2>
      {value.rings.map((one) => (
        <p key={one.words} class="ring-words">
          <span aria-hidden="true">⟳ </span>
          <strong>A ring:</strong> {one.words}. Nobody of it can go on until one gives way.
        </p>
      ))}
      {owners.size <= DRAWN_MAX ? (
        <Suspense fallback={<p class="quiet">…</p>}>
          <WaitGraph waits={value.waits} rings={rings} />
        </Suspense>
      ) : (
        <p class="quiet">Too many to draw; here they are in words.</p>
      )}
      <ul class="waits">
        {value.waits.map((one, at) => (
          <li key={at} data-ring={rings.has(one.from) && rings.has(one.to) ? "" : undefined}>
            <Who address={one.from} /> {waitWords(one)} <Who address={one.to} />
            {one.lock && (
              <>
                {" "}
                over <Who address={one.lock} />
              </>
            )}{" "}
            <span class="quiet">
              for <Took from={one.since} />
              {rings.has(one.from) && rings.has(one.to) ? " · in a ring" : ""}
            </span>
          </li>
        ))}
      </ul>
      {value.waits_left > 0 && <p class="quiet">and {value.waits_left} more</p>}
    </section>
  );
}

function LockCard({ lock, rings }: { lock: Lock; rings: ReadonlySet<string> }) {
  const [isAsked, setAsked] = useState(false);
  const [news, setNews] = useState("");
  const card = useRef<HTMLLIElement>(null);
  // Who has taken it away goes on in its card: the button is gone once nobody holds it.
  const isTaken = useRef(false);
  useLayoutEffect(() => {
    if (!isTaken.current || document.activeElement !== document.body) return;
    isTaken.current = false;
    card.current?.focus({ preventScroll: true });
  }, [isAsked, lock.holders.length]);
  const taken = (said: string): void => {
    isTaken.current = true;
    setNews(said);
  };
  return (
    <li class="panel lock" ref={card} id={lock.address} tabIndex={-1} aria-label={lock.address}>
      <div class="toolbar">
        <h3 class="mono">{lock.path}</h3>
        {lock.place !== lock.path && <span class="quiet mono">is {lock.place}</span>}
        <span class="quiet" role="status">
          {news}
        </span>
        {lock.holders.length > 0 && !whyNot() && (
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
        {lock.holders.length === 0 && <li class="quiet">nobody holds it now</li>}
        {lock.waiters.map((one, at) => (
          <li key={one.waiting} data-ring={rings.has(one.owner) ? "" : undefined}>
            <span class="lock-word">{at + 1}. waits</span> <Who address={one.owner} /> <span class="badge">{one.mode}</span>{" "}
            <span class="quiet">
              for <Took from={one.since} />
            </span>
            {one.reason && <> “{one.reason}”</>}
          </li>
        ))}
        {lock.lost.map((one) => (
          <li key={one.owner} class="lock-lost">
            <span class="lock-word">lost by</span> <Who address={one.owner} />, {one.how === "broken" ? `broken by ${one.by}` : one.how} <Ago at={one.at} />
            {one.reason && <> “{one.reason}”</>}
          </li>
        ))}
      </ul>
      {isAsked && <Unlock lock={lock} onClose={() => setAsked(false)} onDone={taken} />}
    </li>
  );
}

function Unlock({ lock, onClose, onDone }: { lock: Lock; onClose: () => void; onDone: (news: string) => void }) {
  const [reason, setReason] = useState("");
  const owners = lock.holders.map((one) => one.owner).join(", ");
  return (
    <Confirm
      title={`Take ${lock.address} from ${owners}?`}
      action="Unlock"
      grave
      onClose={onClose}
      onConfirm={async () => {
        const answer = await post<{ rev: number; owners: string[]; commands: string[] }>("unlock", { lock: lock.address, reason });
        const goesOn = answer.commands.length > 0 ? ` The command of ${answer.commands.join(", ")} goes on and may still write there.` : "";
        onDone(`taken from ${answer.owners.join(", ")}, rev ${answer.rev}.${goesOn}`);
      }}
    >
      <p>
        {lock.waiters.length > 0 ? `It goes to ${lock.waiters[0]?.owner}, who has waited longest.` : "Nobody waits for it."} An agent that held it is told, and its next write there is refused until it has locked it again. A command that
        runs is not stopped, and may still write there. What was written stays.
      </p>
      <label>
        Reason <span class="quiet">for the history and for who held it</span>
        <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
    </Confirm>
  );
}

function versions(kind: string): string {
  return [...plan.kind(kind).value.values()].map((one) => `${one.address}:${one.rev}`).join(" ");
}
