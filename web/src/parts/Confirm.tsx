import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Refused, refusedOf } from "../api";
import { Problem } from "./Problem";

interface Props {
  /** The question, such as `Cancel task/backend?`. */
  title: string;
  /** What the button says that does it: a verb, never `OK`. */
  action: string;
  /** Whether something is lost by it. */
  grave?: boolean;
  /** What would happen, and whatever is to be filled in. */
  children?: ComponentChildren;
  /** Does it; a refusal is shown and the question stays. */
  onConfirm: () => Promise<unknown>;
  /** The question is to go: it was answered either way. Told once, and not after it is gone. */
  onClose: () => void;
}

/** A question before something happens. Escape says no, Enter in a field yes; the focus goes back where it was. */
export function Confirm({ title, action, grave = false, children, onConfirm, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<Refused | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isOver = useRef(false);
  const close = (): void => {
    if (isOver.current) return;
    isOver.current = true;
    onClose();
  };
  // Before anybody can press anything else, so that no other question comes meanwhile.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const element = dialog.current;
    element?.showModal();
    return () => {
      // What comes late, an answer of the server or the browser's word that this has closed, is not for the next one.
      isOver.current = true;
      element?.close(); // What stands behind an open dialog takes no focus.
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);

  const confirm = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      close();
    } catch (refusal) {
      setError(refusedOf(refusal));
      setBusy(false);
    }
  };

  // Escape is heard before the dialog closes: the browser tells of the end when somebody may have pressed the next
  // button. No key is heard by what stands behind: the Escape that is a no would close that, too.
  return (
    <dialog ref={dialog} aria-label={title} onCancel={close} onClose={close} onKeyDown={(event) => event.stopPropagation()}>
      <form onSubmit={confirm}>
        <h2>{title}</h2>
        {children}
        {error && <Problem error={error} />}
        <div class="buttons">
          <button type="button" onClick={close}>
            Back
          </button>
          <button type="submit" class={grave ? "grave" : "main"} disabled={isBusy}>
            {isBusy ? "…" : action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
