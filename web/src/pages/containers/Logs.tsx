// What a container writes: the newest page at once, then what comes, and older pages on demand. No more of it is kept
// than a page can bear.

import { useEffect, useState } from "preact/hooks";
import { get } from "../../api";
import type { components } from "../../api-types";
import { OutputView, useOutput } from "../../parts/OutputView";
import { type Line, wire } from "../../socket";
import { type Frame, logged, NOTHING } from "./logs";

type Older = components["schemas"]["OlderLog"];

const PACE_MS = 100;

const LINES: Record<Line, string> = {
  connecting: "connecting",
  live: "following",
  lost: "connection lost, trying again",
  over: "ended",
};

export function Logs({ name }: { name: string }) {
  const path = `containers/${encodeURIComponent(name)}/logs`;
  const output = useOutput(NOTHING, ({ log, start }) => get<Older>(path, { log, before: start }));
  const line = useFrames(`${path}/tail`, (frames) => output.put((now) => frames.reduce(logged, now)));
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
      <OutputView of={output} head={head} label="Output" isGrowing empty={line === "connecting" ? "" : "It has written nothing."} />
      {output.shown.isCut && (
        <p class="quiet">
          Older lines are in <code>plan logs container/{name}</code>.
        </p>
      )}
    </section>
  );
}

/** Tells frames as they come: a container can write faster than a page can be drawn, so those of a burst together. */
function useFrames(path: string, told: (frames: readonly Frame[]) => void): Line {
  const [line, setLine] = useState<Line>("connecting");
  useEffect(() => {
    let waiting: Frame[] = [];
    let timer = 0;
    const tell = (): void => {
      timer = 0;
      const frames = waiting;
      waiting = [];
      told(frames);
    };
    const own = wire<Frame>({
      path: () => path,
      line: setLine,
      frame: (frame) => {
        waiting.push(frame);
        timer ||= window.setTimeout(tell, PACE_MS);
      },
    });
    return () => {
      window.clearTimeout(timer);
      own.close();
    };
  }, [path]);
  return line;
}
