// A virtual list: only visible rows are in the document. All rows have the same height.

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const BEYOND = 8; // Rows kept above and below the visible part, so that scrolling shows no gaps.

interface Props<Item> {
  items: readonly Item[];
  keyOf: (item: Item) => string;
  /** Pixels. */
  height: number;
  label: string;
  render: (item: Item, index: number) => ComponentChildren;
  role?: JSX.AriaRole;
  rowRole?: JSX.AriaRole;
  /** Further attributes of a row's element, such as `aria-selected`. */
  attributes?: (item: Item, index: number) => JSX.HTMLAttributes<HTMLDivElement>;
  /** The key of the row to scroll to whenever this changes. */
  active?: string | undefined;
  onKeyDown?: (event: KeyboardEvent) => void;
  class?: string;
  /** Further attributes of the list element. */
  list?: JSX.HTMLAttributes<HTMLDivElement>;
}

/** A virtual list that fills its parent; the parent sets the height. */
export function Rows<Item>(props: Props<Item>) {
  const { items, keyOf, height, label, render, role = "list", rowRole = "listitem", attributes, active, onKeyDown } = props;
  const frame = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 800 });

  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const look = (): void => setSight({ top: element.scrollTop, height: element.clientHeight });
    look();
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      watcher.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);

  useLayoutEffect(() => {
    const element = frame.current;
    const index = active === undefined ? -1 : items.findIndex((item) => keyOf(item) === active);
    if (element === null || index < 0) return;
    const top = index * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight;
  }, [active]);

  const first = Math.max(0, Math.floor(sight.top / height) - BEYOND);
  const last = Math.min(items.length, Math.ceil((sight.top + sight.height) / height) + BEYOND);
  const shown = items.slice(first, last);
  return (
    <div ref={frame} class={`rows ${props.class ?? ""}`} role={role} aria-label={label} tabIndex={0} onKeyDown={onKeyDown} {...props.list}>
      <div class="rows-all" role="presentation" style={{ height: `${items.length * height}px` }}>
        {shown.map((item, at) => (
          <div
            key={keyOf(item)}
            role={rowRole}
            aria-setsize={items.length}
            aria-posinset={first + at + 1}
            {...attributes?.(item, first + at)}
            class={`row ${attributes?.(item, first + at).class ?? ""}`}
            style={{ height: `${height}px`, transform: `translateY(${(first + at) * height}px)` }}
          >
            {render(item, first + at)}
          </div>
        ))}
      </div>
    </div>
  );
}
