import type { ComponentChildren } from "preact";

/** A pending item with its title, kind, address and content. A link to it moves the focus here. */
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
