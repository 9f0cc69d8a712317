// The output of a container: the newest page, then new output, and older pages on demand. The page drops the oldest
// lines of a very long output.

import { useEffect, useState } from "preact/hooks";
import { get } from "../../api";
import type { components } from "../../api-types";
import { OutputView, useOutput } from "../../parts/OutputView";
import { type Line, wire } from "../../socket";
import { type Frame, NOTHING, withFrame } from "./logs";

type Older = components["schemas"]["OlderLog"];

const PACE_MS = 100;

const LINES: Record<Line, string> = {
  connecting: "connecting",
  live: "live",
  lost: "connection lost, reconnecting",
  over: "ended",
};

export function Logs({ name }: { name: string }) {
  const path = `containers/${encodeURIComponent(name)}/logs`;
  const output = useOutput(NOTHING, ({ log, start }) => get<Older>(path, { log, before: start }));
  const line = useFrames(`${path}/tail`, (frames) => output.put((now) => frames.reduce(withFrame, now)));
  const head = (
    <>
      <h2 id="logs-title">Logs</h2>
      <span class="quiet" role="status">
        {LINES[line]}
      </span>
    </>
  );
  return (
    <section class="logs" aria-labelledby="logs-title">
      <OutputView of={output} head={head} label="Output" isGrowing empty={line === "connecting" ? "" : "No output yet."} />
      {output.shown.isCut && (
        <p class="quiet">
          For older lines, run <code>plan logs container/{name}</code>.
        </p>
      )}
    </section>
  );
}

/** Delivers frames in batches: a container can write faster than the page can render. */
function useFrames(path: string, deliver: (frames: readonly Frame[]) => void): Line {
  const [line, setLine] = useState<Line>("connecting");
  useEffect(() => {
    let waiting: Frame[] = [];
    let timer = 0;
    const flush = (): void => {
      timer = 0;
      const frames = waiting;
      waiting = [];
      deliver(frames);
    };
    const own = wire<Frame>({
      path: () => path,
      line: setLine,
      frame: (frame) => {
        waiting.push(frame);
        timer ||= window.setTimeout(flush, PACE_MS);
      },
    });
    return () => {
      window.clearTimeout(timer);
      own.close();
    };
  }, [path]);
  return line;
}
