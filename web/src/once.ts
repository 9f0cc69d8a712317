// Work that is asked for more often than it can be done.

/**
 * `step`, never twice at a time: whoever asks while it goes on has it done once more, right after. The promise is kept
 * when nothing more is asked for; it is broken by the fault of the last step, since the next one makes up for others.
 */
export function oneAtATime(step: () => Promise<void>): () => Promise<void> {
  let isAskedAgain = false;
  let underWay: Promise<void> | undefined;
  const run = async (): Promise<void> => {
    try {
      while (isAskedAgain) {
        isAskedAgain = false;
        try {
          await step();
        } catch (fault) {
          if (!isAskedAgain) throw fault;
        }
      }
    } finally {
      underWay = undefined;
    }
  };
  return () => {
    isAskedAgain = true;
    underWay ??= run();
    return underWay;
  };
}
