// Fetches stylesheets again that failed to load because the network changed. The page works
// without its stylesheets, but has no layout.

const FIRST_WAIT_MS = 200;
const TRIES = 6; // Each waits twice as long as the one before: the last starts 13 seconds after the failure.

/**
 * Fetches each stylesheet of the document that failed to load once more. Call it at the start of a module script: the
 * browser runs those after every stylesheet has loaded or failed.
 */
export function refetchStylesheets(): void {
  for (const link of document.querySelectorAll<HTMLLinkElement>("link[rel=stylesheet]")) {
    if (!isLoaded(link)) refetch(link, 1);
  }
}

function refetch(failed: HTMLLinkElement, attempt: number): void {
  if (attempt > TRIES) return;
  setTimeout(
    () => {
      const link = failed.cloneNode() as HTMLLinkElement; // The browser does not fetch the old element again.
      link.addEventListener("error", () => refetch(link, attempt + 1));
      failed.replaceWith(link); // At the same place: of two rules the later one wins.
    },
    FIRST_WAIT_MS * 2 ** (attempt - 1),
  );
}

/** Whether the sheet has rules. A failed sheet has none, or reading them throws. */
function isLoaded(link: HTMLLinkElement): boolean {
  try {
    return link.sheet !== null && link.sheet.cssRules.length > 0;
  } catch {
    return false;
  }
}
