// What happens in a run, heard as it does: what is shown of the run is read again then.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Line, wire } from "../../socket";
import { ofRun } from "./places";
import type { RunFrame } from "./types";

const PACE_MS = 700; // A run that goes on is folded anew for a reader no more often.

interface Ears {
  /** Whether what is shown may be another after this. */
  heard: (frame: RunFrame) => boolean;
  again: () => void;
}

/** Listens to the run while `isOpen`; `again` is called now and then while that goes on which `heard` wants. */
export function useFollowing(suite: string, run: string, isOpen: boolean, ears: Ears): Line {
  const [line, setLine] = useState<Line>("connecting");
  const now = useRef(ears);
  now.current = ears;
  useEffect(() => {
    if (!isOpen) return;
    let seq = 0;
    let timer = 0;
    const own = wire<RunFrame>({
      path: () => `${ofRun(suite, run)}/tail?after=${seq}`,
      line: setLine,
      frame: (frame) => {
        seq = frame.seq;
        if (!now.current.heard(frame)) return;
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

/** Whether more may become of one of these; also while nothing is known of them yet. */
export function isOpen(verdicts: readonly string[] | undefined): boolean {
  return verdicts === undefined || verdicts.some((one) => one === "running" || one === "missing");
}
