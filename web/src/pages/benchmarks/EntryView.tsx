// One trial of a case with one model: its prompt, checks, transcript, calls and cost.

import { useAnswer } from "../../answer";
import { Life } from "../../parts/Life";
import { Problem } from "../../parts/Problem";
import { BlobView } from "./BlobView";
import { isOpen, useFollowing } from "./following";
import { ofRun, toCase, toRun } from "./places";
import { Reading } from "./Reading";
import type { Call, Checked, EntryTold, RunFrame } from "./types";
import { Verdict } from "./Verdict";

interface Props {
  suite: string;
  run: string;
  id: string;
  model: string;
  trial: number;
}

export function EntryView({ suite, run, id, model, trial }: Props) {
  const { value, error, again } = useAnswer<EntryTold>(ofRun(suite, run, `/cases/${encodeURIComponent(id)}`), { model, trial });
  const isRelevant = (frame: RunFrame): boolean => frame.events.some((one) => one.case === id && one.model === model && one.trial === trial);
  useFollowing(suite, run, isOpen(value ? [value.verdict] : undefined), { isRelevant, again });
  return (
    <article class="entry" aria-labelledby="entry-title">
      <nav aria-label="Breadcrumb">
        <a href={toRun(suite, run)}>
          {suite}/{run}
        </a>{" "}
        / <a href={toCase(suite, run, id)}>{id}</a>
      </nav>
      <h1 id="entry-title">
        {id}, {model}, trial {trial} {value && <Verdict verdict={value.verdict} />}
      </h1>
      {error && <Problem error={error} />}
      {value === null && error === null && <Reading />}
      {value !== null && (
        <>
          <p role="status">{value.why}</p>
          <Figures value={value} />
          <h2>Prompt</h2>
          <pre>{value.prompt}</pre>
          <h2>Checks</h2>
          {value.checks.length === 0 && <p class="quiet">No check has run yet.</p>}
          <ol class="checks">
            {value.checks.map((one) => (
              <CheckResult key={one.check} suite={suite} run={run} check={one} />
            ))}
          </ol>
          <h2>Transcript</h2>
          {value.transcripts.length === 0 && <p class="quiet">No transcript: the log of this run was deleted.</p>}
          {value.transcripts.map((one) => (
            <section key={one.agent} aria-label={`Transcript of ${one.agent}`}>
              {value.transcripts.length > 1 && <h3>{one.agent}</h3>}
              <Life items={one.items} label={`Conversation of ${one.agent}`} />
            </section>
          ))}
          <h2>Calls</h2>
          <Calls calls={value.calls} />
        </>
      )}
    </article>
  );
}

function Figures({ value }: { value: EntryTold }) {
  const used = value.usage;
  const facts: [string, string | number][] = [
    ...(used ? ([["turns", used.turns], ["calls", used.calls], ["tokens", `${used.tokens_in} in, ${used.tokens_out} out`], ["cost", used.usd_words]] as [string, string | number][]) : []),
    ...(used?.escalated ? ([["stronger model", `${used.escalated.tokens} tokens, $${used.escalated.usd}`]] as [string, string][]) : []),
    ...(value.seconds ? ([["time", value.seconds]] as [string, string][]) : []),
    ...value.figures.map((one): [string, string] => [one.figure, one.value]),
    ["prompt", `variant ${value.variant + 1}`],
    ...(value.attempts > 1 ? ([["attempts", value.attempts]] as [string, number][]) : []),
    ["task", `${value.task} in the plan of the run`],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, words]) => (
        <Fact key={name} name={name} words={words} />
      ))}
    </dl>
  );
}

function Fact({ name, words }: { name: string; words: string | number }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{words}</dd>
    </>
  );
}

function CheckResult({ suite, run, check }: { suite: string; run: string; check: Checked }) {
  return (
    <li>
      <strong>{check.check}</strong> <span class="quiet">{check.kind}</span> <Verdict verdict={check.result} />{" "}
      <span class="quiet number">{check.seconds}</span>
      {check.message && <p class="check-message">{check.message}</p>}
      {check.blobs.map((blob) => (
        <BlobView key={blob.name} suite={suite} run={run} blob={blob} check={check.check} />
      ))}
    </li>
  );
}

function Calls({ calls }: { calls: readonly Call[] }) {
  if (calls.length === 0) return <p class="quiet">No tool calls.</p>;
  return (
    <div class="scroll" role="region" aria-label="Calls" tabIndex={0}>
      <table class="calls">
        <thead>
          <tr>
            <th scope="col">Number</th>
            <th scope="col">Tool</th>
            <th scope="col">Arguments</th>
            <th scope="col">State</th>
            <th scope="col">Result</th>
          </tr>
        </thead>
        <tbody>
          {calls.map((one) => (
            <tr key={one.call}>
              <td class="number">{one.call}</td>
              <th scope="row" class="mono name">
                {one.tool}
              </th>
              <td>
                <pre>{typeof one.arguments === "string" ? one.arguments : JSON.stringify(one.arguments, null, 1)}</pre>
              </td>
              <td>{one.fault || one.state}</td>
              <td>{one.text && <pre>{one.text}</pre>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
