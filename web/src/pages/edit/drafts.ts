// Unapplied edits, stored in the browser: they survive a reload, a closed tab and a stopped server.
//
// Each page stores its draft under a unique id, so that two tabs never overwrite each other. A reloaded page restores
// the draft of its tab; drafts of other tabs are listed.

import { freshId } from "../../fresh";
import type { Base, Format, Side } from "./api";

export interface Draft {
  text: string;
  format: Format;
  base: Base;
  blob: string;
  chosen: Record<string, Side>;
  /** When it was last written, in milliseconds since 1970. */
  at: number;
}

const OWN = "planloop.draft";

export class Drafts {
  private readonly prefix: string;
  private readonly id = freshId();

  constructor(
    plan: string,
    private readonly lasting: Storage = localStorage,
    private readonly ofTab: Storage = sessionStorage,
  ) {
    this.prefix = `${OWN}.${plan}.`;
  }

  /** Returns the draft that this tab had before the reload, and stores it under this page's id. */
  takeUp(): Draft | undefined {
    const before = this.ofTab.getItem(this.prefix);
    this.ofTab.setItem(this.prefix, this.id);
    if (before === null || before === this.id) return this.read(this.id);
    const found = this.read(before);
    // A duplicated tab restores the same draft; the original tab stores its own again at the next change.
    if (found !== undefined && this.keep(found)) this.lasting.removeItem(this.prefix + before);
    return found;
  }

  /** Stores `draft`; returns false if the browser's storage is full. */
  keep(draft: Draft): boolean {
    return this.write(this.id, draft);
  }

  /** Stores `draft` among the drafts that `others` lists; returns false if the browser's storage is full. */
  setAside(draft: Draft): boolean {
    return this.write(freshId(), draft);
  }

  /** Deletes this page's draft. */
  drop(): void {
    this.lasting.removeItem(this.prefix + this.id);
  }

  /** Returns the drafts of other tabs and those that were set aside, newest first. */
  others(): { id: string; draft: Draft }[] {
    const found: { id: string; draft: Draft }[] = [];
    for (let index = 0; index < this.lasting.length; index += 1) {
      const key = this.lasting.key(index) ?? "";
      const id = key.slice(this.prefix.length);
      const draft = key.startsWith(this.prefix) && id !== this.id ? this.read(id) : undefined;
      if (draft !== undefined) found.push({ id, draft });
    }
    return found.sort((one, other) => other.draft.at - one.draft.at);
  }

  /** Deletes the draft with that id. */
  discard(id: string): void {
    this.lasting.removeItem(this.prefix + id);
  }

  private write(id: string, draft: Draft): boolean {
    try {
      this.lasting.setItem(this.prefix + id, JSON.stringify(draft));
      return true;
    } catch {
      return false;
    }
  }

  private read(id: string): Draft | undefined {
    try {
      const found = JSON.parse(this.lasting.getItem(this.prefix + id) ?? "null") as Draft | null;
      return found !== null && typeof found.text === "string" && typeof found.base?.rev === "number" ? found : undefined;
    } catch {
      return undefined;
    }
  }
}
