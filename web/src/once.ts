/**
 * Returns a function that runs `step`, never two at a time. A call during a run causes one more run after it. The
 * promise resolves when no run is due; it rejects only if the last run failed, since that run replaces the ones before.
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
        } catch (error) {
          if (!isAskedAgain) throw error;
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
