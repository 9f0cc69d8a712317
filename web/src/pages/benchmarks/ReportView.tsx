// A report on one run or several: plots, each with a table of its figures, and all verdicts.

import { Matrix } from "./Matrix";
import { CostPlot, PairPlot, RatePlot } from "./plots";
import { toCase, toRun } from "./places";
import type { Report, Section, Sheet } from "./types";

const WITH_PLOT: readonly string[] = ["Pass rate", "Cost", "Pairwise comparison"];
const FOLDED: readonly string[] = ["Soft figures"]; // Many lines, which never change a verdict.

export function ReportView({ report }: { report: Report }) {
  return (
    <>
      {report.sections.map((section, at) => (
        <SectionView key={section.suite} section={section} id={`s${at}`} isAlone={report.sections.length === 1} />
      ))}
    </>
  );
}

function SectionView({ section, id, isAlone }: { section: Section; id: string; isAlone: boolean }) {
  const sheet = (title: string): Sheet | undefined => section.sheets.find((one) => one.title === title);
  const [rates, costs, pairs] = WITH_PLOT.map(sheet);
  const hasCosts = section.columns.some((one) => (one.median_usd ?? 0) > 0 || (one.median_tokens ?? 0) > 0);
  return (
    <section aria-labelledby={isAlone ? undefined : id} aria-label={isAlone ? `Figures of ${section.suite}` : undefined}>
      {!isAlone && <h2 id={id}>{section.suite}</h2>}
      <Warnings section={section} />
      <p>{section.scale}</p>
      {rates && (
        <Part sheet={rates}>
          <RatePlot section={section} id={`${id}-rates`} />
        </Part>
      )}
      {pairs && (
        <Part sheet={pairs}>
          <PairPlot section={section} id={`${id}-pairs`} />
        </Part>
      )}
      {costs && <Part sheet={costs}>{hasCosts && <CostPlot section={section} id={`${id}-costs`} />}</Part>}
      {section.sheets
        .filter((one) => !WITH_PLOT.includes(one.title) && !FOLDED.includes(one.title))
        .map((one) => (
          <Part key={one.title} sheet={one} />
        ))}
      <Suspicions section={section} />
      <Matrix section={section} />
      {section.sheets
        .filter((one) => FOLDED.includes(one.title))
        .map((one) => (
          <details key={one.title} class="soft">
            <summary>{one.title}</summary>
            <SheetTable sheet={one} />
          </details>
        ))}
    </section>
  );
}

/** Problems of the runs that affect their figures. */
function Warnings({ section }: { section: Section }) {
  const found = section.runs.filter((one) => one.troubles.length > 0);
  if (found.length === 0) return null;
  return (
    <aside class="troubles" aria-label={`Warnings about ${section.suite}`}>
      <ul>
        {found.flatMap((one) =>
          one.troubles.map((trouble) => (
            <li key={`${one.run} ${trouble}`}>
              <a href={toRun(section.suite, one.run)}>{one.run}</a>: {trouble}
            </li>
          )),
        )}
      </ul>
    </aside>
  );
}

function Suspicions({ section }: { section: Section }) {
  const run = section.runs[0]?.run ?? "";
  if (section.suspicions.length === 0) return null;
  return (
    <>
      <h3>Cases to look at</h3>
      <ul>
        {section.suspicions.map((one) => (
          <li key={one.what}>
            {one.what}:{" "}
            {one.cases.map((words, at) => (
              <span key={words}>
                {at > 0 && ", "}
                <a href={toCase(section.suite, run, words.split(" ")[0] ?? words)}>{words}</a>
              </span>
            ))}
          </li>
        ))}
      </ul>
    </>
  );
}

function Part({ sheet, children }: { sheet: Sheet; children?: preact.ComponentChildren }) {
  return (
    <>
      <h3>{sheet.title}</h3>
      <div class={children ? "beside" : undefined}>
        {children && <figure>{children}</figure>}
        <SheetTable sheet={sheet} />
      </div>
    </>
  );
}

/** A table of the report. It can take the focus, so that the keyboard can scroll it on a narrow screen. */
export function SheetTable({ sheet }: { sheet: Sheet }) {
  return (
    <div class="sheet">
      <div class="scroll" role="region" aria-label={sheet.title} tabIndex={0}>
        <table>
          <caption class="unseen">{sheet.title}</caption>
          <thead>
            <tr>
              {sheet.head.map((cell, at) => (
                <th key={at} scope="col" class={at < sheet.names ? "name" : "figure"}>
                  {cell}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sheet.rows.map((row, at) => (
              <tr key={at}>
                {row.map((cell, place) =>
                  place === 0 ? (
                    <th key={place} scope="row" class="name">
                      {cell}
                    </th>
                  ) : (
                    <td key={place} class={place < sheet.names ? "name" : "figure"}>
                      {cell}
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {sheet.note && <p class="quiet note">{sheet.note}</p>}
    </div>
  );
}
