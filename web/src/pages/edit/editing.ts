// An edit of the plan as it goes on: the text, what the server last said of it, and what was chosen and applied.
//
// The text belongs to the person: it is replaced only when they ask (apply, merge, begin again), or while they have
// not touched it. Questions go out one at a time, and an answer counts only for the text that it was asked for.

import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { get, post, type Refused, refusedOf } from "../../api";
import { plan } from "../../log/plan";
import { session } from "../../session";
import { type Draft, Drafts } from "./drafts";
import type { EditText, Format, Look, NewDraft, Pulled, Side, Verdict } from "./said";

const CHECK_MS = 250; // After the last key press, for the faults.
const PREVIEW_MS = 900; // The same for the preview, which costs the plan's owner more.
const KEEP_MS = 300;

export type Asking = "no" | "checking" | "applying" | "merging" | "writing";

export class Editing {
  readonly format: Signal<Format> = signal("yaml");
  readonly file: Signal<string> = signal("");
  /** Why the text is not the plan file's own. */
  readonly why: Signal<string> = signal("");
  /** Whether the person changed the text, so that it is theirs. */
  readonly isTouched: Signal<boolean> = signal(false);
  readonly isReady: Signal<boolean> = signal(false);
  /** Whether the browser keeps the text over a reload. */
  readonly isKept: Signal<boolean> = signal(true);
  /** What the server says of the text as it is; null until it has. */
  readonly look: Signal<Look | null> = signal(null);
  /** Whether `look` is of the text as it stands now. */
  readonly isCurrent: Signal<boolean> = signal(false);
  readonly asking: Signal<Asking> = signal("no");
  /** Why what the person asked for last was not done. */
  readonly problem: Signal<Refused | null> = signal(null);
  /** Why nothing can be said of the text at the moment. */
  readonly blind: Signal<Refused | null> = signal(null);
  readonly verdict: Signal<Verdict | null> = signal(null);
  /** What was done last, in a line. */
  readonly news: Signal<string> = signal("");
  readonly left: Signal<{ id: string; draft: Draft }[]> = signal([]);
  /** Rises when the text was replaced by another than what was typed. */
  readonly given: Signal<number> = signal(0);
  readonly chosen: Signal<Record<string, Side>> = signal({});
  /** Whether everything is as it must be to apply: seen as it stands, without faults, each conflict chosen. */
  readonly mayApply: ReadonlySignal<boolean>;

  text = "";
  private base: EditText["base"] = { uid: "", rev: 0 };
  private blob = "";
  private readonly drafts = new Drafts(session.value.plan);
  private timers: { check?: number; preview?: number; keep?: number } = {};
  /** Rises with every change of what is asked about: the text, its base, a choice. */
  private version = 0;
  private isOut = false;
  private next: "no" | "look" | "preview" = "no";

  constructor() {
    this.mayApply = computed(() => {
      const look = this.look.value;
      if (look === null || !this.isCurrent.value || this.asking.value !== "no") return false;
      return look.is_sound && look.change_count > 0 && look.preview !== null && look.clashes.every((clash) => clash.taken !== null);
    });
    effect(() => {
      if (plan.past.value === null && plan.object(`plan/${session.value.plan}`).value !== undefined) void this.moved();
    });
    effect(() => {
      if (plan.line.value !== "live" || this.blind.peek() === null) return;
      if (this.isTouched.peek()) this.soon();
      else void this.follow();
    });
    addEventListener("pagehide", () => this.keep());
  }

  /** Begins: with what this tab had, else with the live plan. */
  async open(): Promise<void> {
    if (session.value.right === "read") return this.begin(); // Nobody types here.
    const draft = this.drafts.takeUp();
    this.left.value = this.drafts.others();
    if (draft !== undefined) {
      this.goOn(draft);
      await this.describeFile();
      return;
    }
    await this.begin();
  }

  /** Takes the live plan's text. What was typed is set aside, and offered; without room for it nothing is done. */
  async begin(): Promise<void> {
    await this.ask("checking", async () => {
      const live = await get<EditText>("edit");
      if (this.isTouched.peek() && this.look.peek()?.change_count !== 0) {
        this.isKept.value = this.drafts.setAside(this.draft());
        if (!this.isKept.peek()) return;
      }
      this.takeLive(live);
    });
  }

  /** The same unasked, while nobody has touched the text: whoever begins to type before the answer is here keeps theirs. */
  private async follow(): Promise<void> {
    await this.ask("checking", async () => {
      const live = await get<EditText>("edit");
      if (!this.isTouched.peek()) this.takeLive(live);
    });
  }

  private takeLive(live: EditText): void {
    batch(() => {
      this.told(live);
      this.replace(live, live.format);
      this.untouched();
      this.left.value = this.drafts.others();
    });
  }

  /** Goes on with a text that was left. */
  takeLeft(id: string, draft: Draft): void {
    this.goOn(draft);
    this.keep();
    this.drafts.forget(id);
    this.left.value = this.drafts.others();
  }

  forgetLeft(id: string): void {
    this.drafts.forget(id);
    this.left.value = this.drafts.others();
  }

  typed(text: string): void {
    this.text = text;
    this.version += 1;
    batch(() => {
      this.isTouched.value = true;
      this.verdict.value = null;
      this.problem.value = null;
      this.news.value = "";
    });
    this.keepSoon();
    this.soon();
  }

  choose(id: string, side: Side): void {
    this.chosen.value = { ...this.chosen.value, [id]: side };
    this.version += 1;
    this.isCurrent.value = false;
    this.keepSoon();
    void this.check(true);
  }

  async apply(reason: string, isIntoFile: boolean): Promise<void> {
    await this.ask("applying", async () => {
      const shown = this.look.value?.edit ?? "";
      const sent = this.text;
      const verdict = await post<Verdict>("edit/apply", { ...this.body(), shown, reason });
      this.verdict.value = verdict;
      if (verdict.verdict === "shown") {
        this.look.value = verdict.look;
        void this.check(true);
      }
      if (verdict.verdict !== "accepted") return;
      this.news.value = verdict.changed ? `Applied: rev ${verdict.rev}.` : "Nothing was changed.";
      await this.settle(sent, verdict.draft);
      if (isIntoFile) await this.write();
    });
  }

  /** Writes what others changed into the text. */
  async merge(): Promise<void> {
    await this.ask("merging", async () => {
      const sent = this.text;
      const draft = await post<NewDraft>("edit/merge", this.body());
      if (sent !== this.text) return; // Typed on meanwhile: pressing again merges into that.
      batch(() => {
        this.replace(draft, this.format.value);
        this.news.value = `What others changed is in your text; it is begun on rev ${draft.base.rev} now.`;
      });
      this.keep();
      void this.check(true);
    });
  }

  /** Writes what is live into the plan file: with this very text where that says it. */
  async pull(): Promise<void> {
    await this.ask("writing", () => this.write());
  }

  private async write(): Promise<void> {
    const sent = this.text;
    const wish = { text: sent, format: this.format.value, base: this.base, blob: this.blob };
    const pulled = await post<Pulled>("edit/pull", wish);
    batch(() => {
      if (pulled.blob !== "") this.blob = pulled.blob;
      this.news.value = `${this.news.value} ${pulled.file} says what is live.`.trim();
      if (pulled.is_text && sent === this.text) this.untouched();
    });
  }

  private async settle(sent: string, draft: NewDraft): Promise<void> {
    if (this.text !== sent) {
      this.soon(); // Typed on meanwhile: what was applied is the same on both sides now, so the old base will do.
      return;
    }
    batch(() => {
      this.replace(draft, this.format.value);
      this.chosen.value = {};
    });
    const live = await get<EditText>("edit");
    if (live.text === draft.text && this.text === draft.text) {
      this.untouched();
      this.told(live);
    } else {
      this.keep();
      void this.check(true);
    }
  }

  /** The live plan may be another. */
  private async moved(): Promise<void> {
    if (!this.isReady.peek()) return;
    const found = plan.object(`plan/${session.peek().plan}`).peek();
    const known = this.look.peek()?.base ?? this.base;
    const isNewer = Number(found?.status.document_rev ?? 0) > known.rev || found?.uid !== known.uid;
    if (found === undefined || !isNewer || this.asking.peek() !== "no") return; // What is asked now looks again then.
    if (this.isTouched.peek()) await this.check(true);
    else await this.follow();
  }

  private soon(): void {
    this.isCurrent.value = false;
    clearTimeout(this.timers.check);
    clearTimeout(this.timers.preview);
    this.timers.check = window.setTimeout(() => void this.check(false), CHECK_MS);
    this.timers.preview = window.setTimeout(() => void this.check(true), PREVIEW_MS);
  }

  /** Asks what there is to say of the text, one question at a time: what comes up meanwhile is asked next, once. */
  private async check(isPreviewed: boolean): Promise<void> {
    if (session.value.right === "read") return;
    if (this.isOut) {
      this.next = isPreviewed || this.next === "preview" ? "preview" : "look";
      return;
    }
    this.isOut = true;
    const asked = this.version;
    try {
      const look = await post<Look>("edit/look", { ...this.body(), preview: isPreviewed });
      if (asked === this.version) this.take(look, isPreviewed);
    } catch (error) {
      if (asked === this.version) this.blind.value = refusedOf(error);
    }
    this.isOut = false;
    const next = this.next;
    this.next = "no";
    if (next !== "no") await this.check(next === "preview");
  }

  private take(look: Look, isPreviewed: boolean): void {
    batch(() => {
      const before = this.look.peek();
      // While the preview is asked for, the one of the same edit stands.
      const preview = look.preview ?? (before?.edit === look.edit ? before.preview : null);
      this.look.value = { ...look, preview };
      this.isCurrent.value = isPreviewed || preview !== null;
      this.blind.value = null;
    });
  }

  private async ask<T>(what: Asking, question: () => Promise<T>): Promise<T | undefined> {
    if (this.asking.peek() !== "no") return undefined;
    const problem = what === "checking" ? this.blind : this.problem;
    batch(() => {
      this.asking.value = what;
      problem.value = null;
    });
    try {
      return await question();
    } catch (error) {
      problem.value = refusedOf(error);
      return undefined;
    } finally {
      this.asking.value = "no";
      if (this.blind.peek() === null) void this.moved();
    }
  }

  private body(): Record<string, unknown> {
    return { text: this.text, format: this.format.value, base: this.base, blob: this.blob, chosen: this.chosen.value };
  }

  private goOn(draft: Draft): void {
    batch(() => {
      this.chosen.value = draft.chosen;
      this.replace(draft, draft.format);
      this.isTouched.value = true;
    });
    void this.check(true);
  }

  private async describeFile(): Promise<void> {
    const found = await this.ask("checking", () => get<EditText>("edit"));
    if (found !== undefined) this.told(found);
  }

  private told(found: EditText): void {
    this.file.value = found.file;
    this.why.value = found.why;
  }

  private replace(draft: NewDraft, format: Format): void {
    this.version += 1;
    this.text = draft.text;
    this.base = draft.base;
    this.blob = draft.blob;
    this.format.value = format;
    this.look.value = null;
    this.isCurrent.value = false;
    this.isReady.value = true;
    this.given.value += 1;
  }

  private untouched(): void {
    clearTimeout(this.timers.check);
    clearTimeout(this.timers.preview);
    clearTimeout(this.timers.keep);
    batch(() => {
      this.isTouched.value = false;
      this.look.value = null;
      this.chosen.value = {};
    });
    this.version += 1;
    this.drafts.drop();
  }

  private keepSoon(): void {
    clearTimeout(this.timers.keep);
    this.timers.keep = window.setTimeout(() => this.keep(), KEEP_MS);
  }

  private keep(): void {
    if (this.isTouched.peek()) this.isKept.value = this.drafts.keep(this.draft());
  }

  private draft(): Draft {
    const { text, base, blob } = this;
    return { text, base, blob, format: this.format.peek(), chosen: this.chosen.peek(), at: Date.now() };
  }
}
