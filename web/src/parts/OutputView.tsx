// A growing output: it can follow the end, and loads older pages on demand.

import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Refused, refusedOf } from "../api";
import { type Output, preceded } from "./output";
import { Problem } from "./Problem";

export interface Growing<O extends Output> {
  shown: O;
  /** Replaces the output with `next` of its current value. */
  put: (next: (now: O) => O) => void;
  /** The current value, also between two renders. */
  now: () => O;
  older: () => Promise<void>;
  error: Refused | null;
  isFollowing: boolean;
  follow: (isWanted: boolean) => void;
  box: RefObject<HTMLPreElement>;
}

/** An output that starts as `nothing`; `before` reads the page before its start. */
export function useOutput<O extends Output>(nothing: O, before: (now: O) => Promise<Output>): Growing<O> {
  const [shown, setShown] = useState(nothing);
  const [error, setError] = useState<Refused | null>(null);
  const [isFollowing, follow] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const last = useRef(nothing);
  const put = (next: (now: O) => O): void => {
    last.current = next(last.current);
    setShown(last.current);
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (isFollowing && element !== null) element.scrollTop = element.scrollHeight;
  }, [shown, isFollowing]);

  const older = async (): Promise<void> => {
    const asked = last.current;
    setError(null);
    try {
      const page = await before(asked);
      const whole = preceded(last.current, asked, page);
      if (whole === last.current) return;
      const below = (box.current?.scrollHeight ?? 0) - (box.current?.scrollTop ?? 0);
      follow(false);
      put(() => whole);
      requestAnimationFrame(() => {
        if (box.current !== null) box.current.scrollTop = box.current.scrollHeight - below;
      });
    } catch (refusal) {
      setError(refusedOf(refusal));
    }
  };
  return { shown, put, now: () => last.current, older, error, isFollowing, follow, box };
}

interface Props<O extends Output> {
  of: Growing<O>;
  /** The heading and the texts next to it. */
  head: ComponentChildren;
  label: string;
  /** Whether more output can follow. */
  isGrowing: boolean;
  /** The text for an empty output. */
  empty: string;
}

export function OutputView<O extends Output>({ of, head, label, isGrowing, empty }: Props<O>) {
  return (
    <>
      <div class="toolbar">
        {head}
        {isGrowing && (
          <label>
            <input type="checkbox" checked={of.isFollowing} onChange={(event) => of.follow(event.currentTarget.checked)} /> Follow
          </label>
        )}
        {of.shown.log !== "" && of.shown.start > 0 && (
          <button type="button" onClick={() => void of.older()}>
            Older lines
          </button>
        )}
      </div>
      {of.error && <Problem error={of.error} />}
      {of.shown.text ? (
        <pre ref={of.box} tabIndex={0} role="region" aria-label={label} class="output">
          {of.shown.text}
        </pre>
      ) : (
        <p class="quiet">{empty}</p>
      )}
    </>
  );
}
