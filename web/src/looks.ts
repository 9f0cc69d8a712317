// The looks of the page, fetched again where they were lost on their way: because a network of this machine came or
// went meanwhile. Without them all is there, and nothing in its place.

const FIRST_WAIT_MS = 200;
const TRIES = 6; // Each waits twice as long as the one before: the last begins 13 seconds after the loss.

/**
 * Fetches each stylesheet of the document that is not there once more. To be called by a module script as it begins: the
 * browser waits with that until it knows of every stylesheet whether it came.
 */
export function fetchLostLooks(): void {
  for (const link of document.querySelectorAll<HTMLLinkElement>("link[rel=stylesheet]")) {
    if (!hasCome(link)) fetchAgain(link, 1);
  }
}

function fetchAgain(lost: HTMLLinkElement, attempt: number): void {
  if (attempt > TRIES) return;
  setTimeout(
    () => {
      const link = lost.cloneNode() as HTMLLinkElement; // The old one would not be asked for again.
      link.addEventListener("error", () => fetchAgain(link, attempt + 1));
      lost.replaceWith(link); // In its place: which of two rules holds is a matter of order.
    },
    FIRST_WAIT_MS * 2 ** (attempt - 1),
  );
}

/** A sheet that was lost has no rules, or, where not even an answer came, none that may be read. */
function hasCome(link: HTMLLinkElement): boolean {
  try {
    return link.sheet !== null && link.sheet.cssRules.length > 0;
  } catch {
    return false;
  }
}
