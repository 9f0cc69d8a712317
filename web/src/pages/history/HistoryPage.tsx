// The plan's revisions: author, reason, verdict and changes of each, and a way to roll back.

import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Ago } from "../../parts/Ago";
import { Problem } from "../../parts/Problem";
import { go, href } from "../../routes";
import { clockTime } from "../../words/amounts";
import "./history.css";
import { useRevisions } from "./reading";
import { RevisionView } from "./RevisionView";
import type { Change } from "./revisions";

const KINDS = [
  ["", "changes of the plan"],
  ["all", "all attempts"],
  ["refused", "refused"],
  ["held", "held"],
  ["approved", "approved"],
  ["rejected", "rejected"],
] as const;

export default function HistoryPage({ rest }: { rest: string }) {
  const [author, setAuthor] = useState("");
  const [kind, setKind] = useState("");
  const { shown, authors, error, more } = useRevisions({ ...(author ? { author } : {}), ...(kind === "all" ? { all: "1" } : kind ? { kind } : {}) });
  const heading = useFocusOfClosed(rest);
  return (
    <div class="history-page" data-chosen={rest ? "" : undefined}>
      <section class="history-list" aria-label="Revisions">
        <div class="toolbar">
          <h1 ref={heading} tabIndex={-1}>
            History
          </h1>
          <Choice label="Author" value={author} onChoose={setAuthor} options={[["", "all authors"], ["human", "users"], ["agent", "agents"], ...authors.map((one) => [one, one] as const)]} />
          <Choice label="Show" value={kind} onChoose={setKind} options={KINDS} />
        </div>
        {error && <Problem error={error} />}
        {shown?.length === 0 && <p class="quiet">{author || kind ? "No revision matches the filter." : "No revisions yet."}</p>}
        <ol class="revisions" onKeyDown={moveFocus}>
          {shown?.map((one) => (
            <Row key={one.rev} one={one} isChosen={String(one.rev) === rest} />
          ))}
        </ol>
        {more && (
          <button type="button" class="plain" onClick={() => void more()}>
            Earlier revisions
          </button>
        )}
      </section>
      {rest && (
        <section class="history-one" aria-label={`Revision ${rest}`}>
          <RevisionView key={rest} rev={rest} onClose={() => go("history")} />
        </section>
      )}
    </div>
  );
}

function Choice({ label, value, options, onChoose }: { label: string; value: string; options: readonly (readonly [string, string])[]; onChoose: (value: string) => void }) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {options.map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

function Row({ one, isChosen }: { one: Change; isChosen: boolean }) {
  return (
    <li>
      <a id={linkId(String(one.rev))} href={href("history", String(one.rev))} aria-current={isChosen ? "true" : undefined}>
        <span class="revision-head">
          <span class="number revision-rev">{one.rev}</span>
          <span>{one.author}</span>
          <span class="badge" data-did={one.did}>
            {one.did}
          </span>
          <span class="quiet number revision-at" title={clockTime(one.at)}>
            <Ago at={one.at} />
          </span>
        </span>
        <span class="revision-what">{one.what}</span>
      </a>
    </li>
  );
}

function linkId(rev: string): string {
  return `revision-${rev}`;
}

/** Moves the focus from a closed revision to its link in the list, or to the heading, whose ref is returned. */
function useFocusOfClosed(rest: string): RefObject<HTMLHeadingElement> {
  const heading = useRef<HTMLHeadingElement>(null);
  const before = useRef("");
  useLayoutEffect(() => {
    if (rest === "" && before.current !== "" && document.activeElement === document.body) (document.getElementById(linkId(before.current)) ?? heading.current)?.focus();
    before.current = rest;
  }, [rest]);
  return heading;
}

/** Moves the focus between the links of the list with the up and down keys. */
function moveFocus(event: KeyboardEvent): void {
  const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const list = event.currentTarget as HTMLElement;
  const links = [...list.querySelectorAll<HTMLAnchorElement>("a")];
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  const next = links[at + by];
  if (by === 0 || at < 0 || next === undefined) return;
  event.preventDefault();
  next.focus();
}
