// A meter for the use of a limit, with the amounts as text.

interface Props {
  /** What is limited, such as `money`. */
  label: string;
  used: number;
  bound: number;
  /** The part of the rest that is set aside, in the same unit. */
  held?: number;
  /** The same as text: `$0.84 of $20.00`. */
  words: string;
}

export function Bar({ label, used, bound, held = 0, words }: Props) {
  const share = bound > 0 ? Math.min(1, used / bound) : 1;
  const reserved = bound > 0 ? Math.min(1 - share, held / bound) : 0;
  const tone = share >= 0.95 ? "bad" : share >= 0.75 ? "warn" : "run";
  return (
    <div class="bar">
      <span class="bar-label">{label}</span>
      <div class="bar-track" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)} aria-valuetext={words}>
        <div class="bar-used" data-tone={tone} style={{ width: `${share * 100}%` }} />
        <div class="bar-held" style={{ width: `${reserved * 100}%` }} />
      </div>
      <span class="bar-words number">{words}</span>
    </div>
  );
}
