// A file that a check recorded: a screenshot as a picture, a text as text, anything else as a download.
//
// The page fetches it with the token and shows it under a blob URL, which works only in this page.

import { useEffect, useState } from "preact/hooks";
import { getBlob, type Refused, refusedOf } from "../../api";
import { Problem } from "../../parts/Problem";
import { ofRun } from "./places";
import type { Blob as Seen } from "./types";

const TEXT_CHARS = 50_000; // Shown here; the download has the full text.

interface Shown {
  url: string;
  text: string;
  /** Bytes that are not in `text`. */
  left: number;
}

export function BlobView({ suite, run, blob, check }: { suite: string; run: string; blob: Seen; check: string }) {
  const isPicture = blob.media.startsWith("image/");
  const [isOpen, setOpen] = useState(isPicture);
  const [shown, setShown] = useState<Shown | null>(null);
  const [error, setError] = useState<Refused | null>(null);
  useEffect(() => {
    if (!isOpen) return;
    let isWanted = true;
    let url = "";
    getBlob(ofRun(suite, run, `/blobs/${blob.digest}`))
      .then(async (found) => {
        const text = blob.media === "text/plain" ? (await found.slice(0, 4 * TEXT_CHARS).text()).slice(0, TEXT_CHARS) : "";
        if (!isWanted) return;
        url = URL.createObjectURL(found);
        setShown({ url, text, left: text === "" ? 0 : found.size - new TextEncoder().encode(text).length });
      })
      .catch((refusal: unknown) => isWanted && setError(refusedOf(refusal)));
    return () => {
      isWanted = false;
      if (url) URL.revokeObjectURL(url);
    };
  }, [isOpen, blob.digest]);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)} class="blob">
      <summary>
        {blob.name} <span class="quiet number">{bytes(blob.size)}</span>
      </summary>
      {error && <Problem error={error} />}
      {shown !== null && isPicture && <img src={shown.url} alt={`${blob.name}, recorded by the check ${check}`} />}
      {shown !== null && shown.text !== "" && <pre tabIndex={0}>{shown.text}</pre>}
      {shown !== null && shown.left > 0 && <p class="quiet">… and {bytes(shown.left)} more. Download the file for the full text.</p>}
      {shown !== null && (
        <a href={shown.url} download={`${check}-${blob.name}`}>
          Download {blob.name}
        </a>
      )}
    </details>
  );
}

function bytes(size: number): string {
  if (size < 1_000) return `${size} bytes`;
  return size < 1_000_000 ? `${(size / 1_000).toFixed(1)} kB` : `${(size / 1_000_000).toFixed(1)} MB`;
}
