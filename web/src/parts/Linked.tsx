import { linkTo } from "../routes";

const ADDRESS = /\b((?:task|agent|lock|conflict|container|approval|thread|fork|hook)\/[^\s,;:()"]*[^\s,;:()".])/;

/** A text in which addresses are links. */
export function Linked({ words }: { words: string }) {
  return (
    <>
      {words.split(ADDRESS).map((part, at) =>
        at % 2 === 1 ? (
          <a key={at} href={linkTo(part)}>
            {part}
          </a>
        ) : (
          part
        ),
      )}
    </>
  );
}
