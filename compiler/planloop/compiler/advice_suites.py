"""What is said about the codes of `plan bench validate`, which `planloop.benchmarks.validating` finds. See
`advice.py`."""

from __future__ import annotations

from typing import Final

from planloop.compiler.advice import Advice

SUITE_ADVICE: Final[dict[str, Advice]] = {
    "P0501": Advice(
        "`plan bench validate` ran a right answer of the case, and a check did not take it.",
        "The check asks for more than the prompt does: make it accept every right answer. Or the oracle is wrong, or "
        "made for another check: mend it.",
    ),
    "P0502": Advice(
        "A mutant is an answer that is wrong in one way. All checks took it, so an agent that makes this "
        "mistake scores.",
        "Make the check that it names under `kills` look at what is wrong; or the mutant is not wrong, and is "
        "an oracle.",
    ),
    "P0503": Advice(
        "The mutant fails, but the check that it names under `kills` holds. What it was made to show is not shown.",
        "Make that check look at what is wrong, or name the check that does.",
    ),
    "P0504": Advice(
        "An agent that does not do the work passes. The standard cheats say that they passed, answer with what "
        "was right "
        "in another trial, forge verdicts, put programs in the way of those that graders run, leave a process behind "
        "and look for the answers.",
        "Ask in a check for what only the work itself gives, with a `{{nonce.name}}` that no answer can know "
        "beforehand. "
        "Where a check runs something of the workspace's, such as its tests, bring them with `check-files` instead.",
    ),
    "P0505": Advice(
        "The agent that ends at once passes: the checks ask for nothing to have been done, or to have been said.",
        "Add a check for what must be there at the end. Where nothing was to be done, ask with `abstain` for what has "
        "to be said.",
    ),
    "P0506": Advice(
        "No mutant of the case fails the check, so nobody knows whether it can tell right from wrong.",
        "Add a mutant that only this check tells of, or leave the check out.",
    ),
    "P0507": Advice(
        "The case has fewer than three right answers. This is a warning: the case counts as valid.",
        "Add oracles in other styles: other names, other libraries, another order. They show that no check asks for "
        "what the prompt leaves open.",
    ),
    "P0508": Advice(
        "The case has no right answer, so nobody knows whether it can be passed.",
        "Add one under `proof: {oracles: …}`, better three.",
    ),
    "P0509": Advice(
        "One of the proofs ended in an error, or with a check that passed without looking at anything. That "
        "says nothing "
        "of the case, so the case counts as not valid.",
        "Do what its message says, and validate again. `plan doctor` says what this machine lacks.",
    ),
}
