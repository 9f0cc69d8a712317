// A virtual list of items with different heights: only items near the visible part are in the document, and heights are
// measured when items appear. At its end it follows new items, and it does not jump when older items are added.

import type { ComponentChildren, RefObject } from "preact";
import { type MutableRef, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

const BEYOND_PX = 1_200;
const NEAR_END_PX = 48;

interface Props<Item> {
  items: readonly Item[];
  keyOf: (item: Item) => string;
  /** The assumed height of an item that was never shown, in pixels. */
  guess: number;
  label: string;
  render: (item: Item) => ComponentChildren;
  labelOf: (item: Item) => string;
  /** Called when the user scrolls near the start. */
  onStart?: (() => void) | undefined;
  /** Content above the first item, such as a button for older ones. */
  head?: ComponentChildren;
  /** Content below the last item, such as a reply that the model is writing. */
  tail?: ComponentChildren;
  /** Increase it to scroll to the end. */
  toEnd?: number;
}

export function Window<Item>({ items, keyOf, guess, label, render, labelOf, onStart, head, tail, toEnd = 0 }: Props<Item>) {
  const frame = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const { heights, measured, watch } = useHeights();
  const sight = useSight(frame, isAtEnd, onStart);
  const tops = useMemo(() => topsOf(items.map((item) => heights.get(keyOf(item)) ?? guess)), [items, measured]);
  const total = tops.at(-1) ?? 0;
  const first = Math.max(0, firstOver(tops, sight.top - BEYOND_PX) - 1);
  const last = Math.min(items.length, firstOver(tops, sight.top + sight.height + BEYOND_PX));
  useAnchor(frame, isAtEnd, { keys: useMemo(() => items.map(keyOf), [items]), tops, sight });
  useLayoutEffect(() => {
    isAtEnd.current = true;
    if (frame.current !== null) frame.current.scrollTop = frame.current.scrollHeight;
  }, [toEnd]);
  return (
    <div ref={frame} class="window" role="feed" aria-label={label} tabIndex={0}>
      {head}
      <div class="window-all" style={{ paddingTop: `${tops[first] ?? 0}px`, paddingBottom: `${total - (tops[last] ?? total)}px` }}>
        {items.slice(first, last).map((item, at) => (
          <article key={keyOf(item)} ref={watch} data-key={keyOf(item)} aria-label={labelOf(item)} aria-posinset={first + at + 1} aria-setsize={items.length}>
            {render(item)}
          </article>
        ))}
      </div>
      {tail}
    </div>
  );
}

interface Sight {
  top: number;
  height: number;
}

/** Returns the visible part of the list. While that includes the end, the list stays at its end. */
function useSight(frame: RefObject<HTMLDivElement>, isAtEnd: MutableRef<boolean>, onStart: (() => void) | undefined): Sight {
  const [sight, setSight] = useState({ top: 0, height: 800 });
  const onStartNow = useRef(onStart);
  onStartNow.current = onStart;
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const look = (): void => {
      isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
      setSight({ top: element.scrollTop, height: element.clientHeight });
      if (element.scrollTop < NEAR_END_PX) onStartNow.current?.();
    };
    const resized = new ResizeObserver(() => {
      if (isAtEnd.current) element.scrollTop = element.scrollHeight;
      setSight({ top: element.scrollTop, height: element.clientHeight });
    });
    resized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  return sight;
}

/** Returns the heights of all items that were ever shown, by key; `measured` changes whenever one of them does. */
function useHeights(): { heights: ReadonlyMap<string, number>; measured: number; watch: (element: HTMLElement | null) => void } {
  const heights = useRef(new Map<string, number>());
  const [measured, setMeasured] = useState(0);
  const observer = useRef<ResizeObserver>();
  observer.current ??= new ResizeObserver((found) => {
    let hasChanged = false;
    for (const one of found) {
      const key = (one.target as HTMLElement).dataset.key;
      const height = one.borderBoxSize[0]?.blockSize ?? 0;
      if (key !== undefined && one.target.isConnected && height > 0 && heights.current.get(key) !== height) {
        heights.current.set(key, height);
        hasChanged = true;
      }
    }
    if (hasChanged) setMeasured((count) => count + 1);
  });
  const watch = (element: HTMLElement | null): void => {
    if (element !== null) observer.current?.observe(element);
  };
  return { heights: heights.current, measured, watch };
}

/** Keeps the item at the top of the visible part in place when older items are added before it. */
function useAnchor(frame: RefObject<HTMLDivElement>, isAtEnd: MutableRef<boolean>, { keys, tops, sight }: { keys: readonly string[]; tops: readonly number[]; sight: Sight }): void {
  const anchor = useRef<{ key: string; offset: number } | undefined>();
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    if (isAtEnd.current) {
      element.scrollTop = element.scrollHeight;
    } else if (anchor.current !== undefined) {
      const top = tops[keys.indexOf(anchor.current.key)];
      if (top !== undefined && Math.abs(top + anchor.current.offset - element.scrollTop) > 1) element.scrollTop = top + anchor.current.offset;
    }
  }, [keys, tops.at(-1)]);
  useLayoutEffect(() => {
    const index = Math.max(0, firstOver(tops, sight.top) - 1);
    const key = keys[index];
    anchor.current = key === undefined ? undefined : { key, offset: sight.top - (tops[index] ?? 0) };
  }, [sight]);
}

/** Returns where each item starts, and where the last one ends. */
function topsOf(heights: readonly number[]): number[] {
  let at = 0;
  return [0, ...heights.map((height) => (at += height))];
}

/** Returns the first index whose top is greater than `y`. */
function firstOver(tops: readonly number[], y: number): number {
  let low = 0;
  let high = tops.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tops[middle] ?? 0) > y) high = middle;
    else low = middle + 1;
  }
  return low;
}
