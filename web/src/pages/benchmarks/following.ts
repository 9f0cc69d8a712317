// Follows the events of a run, so that pages read it again.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Line, wire } from "../../socket";
import { ofRun } from "./places";
import type { RunFrame } from "./types";

const PACE_MS = 700; // The shortest time between two reads of a running run.

interface Listener {
  /** Whether the frame can change what the page shows. */
  isRelevant: (frame: RunFrame) => boolean;
  again: () => void;
}

/** Follows the run while `isOpen`; calls `again` at intervals while relevant frames arrive. */
export function useFollowing(suite: string, run: string, isOpen: boolean, listener: Listener): Line {
  const [line, setLine] = useState<Line>("connecting");
  const now = useRef(listener);
  now.current = listener;
  useEffect(() => {
    if (!isOpen) return;
    let seq = 0;
    let timer = 0;
    const own = wire<RunFrame>({
      path: () => `${ofRun(suite, run)}/tail?after=${seq}`,
      line: setLine,
      frame: (frame) => {
        seq = frame.seq;
        if (!now.current.isRelevant(frame)) return;
        timer ||= window.setTimeout(() => {
          timer = 0;
          now.current.again();
        }, PACE_MS);
      },
    });
    return () => {
      window.clearTimeout(timer);
      own.close();
    };
  }, [suite, run, isOpen]);
  return line;
}

/** Whether one of the verdicts can still change; true while they are not loaded. */
export function isOpen(verdicts: readonly string[] | undefined): boolean {
  return verdicts === undefined || verdicts.some((one) => one === "running" || one === "missing");
}
