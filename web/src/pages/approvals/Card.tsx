import type { ComponentChildren } from "preact";

/** One thing that waits: its name, what it is, and whatever says more. A link to it leads here and takes the focus. */
export function Card({ address, badge, title, children }: { address: string; badge: string; title: ComponentChildren; children: ComponentChildren }) {
  return (
    <article class="panel card" id={address} tabIndex={-1} aria-label={address}>
      <header class="toolbar">
        <h3>{title}</h3>
        <span class="badge">{badge}</span>
        <span class="quiet mono card-address">{address}</span>
      </header>
      {children}
    </article>
  );
}
