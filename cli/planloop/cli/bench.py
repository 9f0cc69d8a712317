"""`plan bench`: suites of cases, run over models, oracles and nop, and reported."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import output_option

TRACKS = ("clojure", "clojurescript", "typescript")

_SUITES = click.option(
    "--suites",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder with your own suites. Default: $PLANLOOP_SUITES, or ./suites.",
)

EXAMPLE = """
\b
Examples:
  plan bench list
  plan bench validate notes.yaml
  plan bench run notes.yaml --model ollama/qwen3:8b --model nop
  plan bench run tool-calling --model oracle --model nop
  plan bench run --all --suites my-suites --model openai/gpt-4o --trials 3
  plan bench resume tool-calling/2026-11-23-1
  plan bench report
  plan bench report tool-calling/2026-11-23-1
  plan bench import exercism ../exercism-clojure --track clojure
  plan explain suite-case                   the fields of a case
"""


@click.group(epilog=EXAMPLE, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Run benchmark suites, and compare agents."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("list")
@click.argument("names", nargs=-1, metavar="[SUITE]...")
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="The folder for runs.")
@_SUITES
@output_option("json", "yaml")
def list_suites(names: tuple[str, ...], reports: Path, folders: tuple[Path, ...], output: str | None) -> None:
    """List suites, or the cases of suites.

    Without arguments, the suites of planloop and your own are listed. A suite is valid if `plan bench validate`
    accepted all of its cases in their present form.
    """
    from planloop.cli.bench_suites import list_suites

    list_suites(names, reports, output, folders)


@command.command("run")
@click.argument("names", nargs=-1, metavar="[SUITE]...")
@click.option("--all", "is_all", is_flag=True, help="All suites that `plan bench list` shows.")
@click.option("--model", "models", multiple=True, required=True, help="oracle, nop, script:FILE or provider/model.")
@click.option("--trials", type=click.IntRange(1), help="The number of trials for each case.")
@click.option("--seed", type=int, help="The seed of every random choice.")
@click.option("--cases", default="*", metavar="GLOB", help="Only cases whose id matches.")
@click.option(
    "--parallel", type=click.IntRange(1), default=4, show_default=True, help="How many cases run in parallel."
)
@click.option("--deterministic", is_flag=True, help="Run one case at a time, so that two runs have the same events.")
@click.option("--name", "run_name", help="The name of the run. Default: the date and a number.")
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="The folder for runs.")
@_SUITES
def run(
    names: tuple[str, ...],
    is_all: bool,
    models: tuple[str, ...],
    trials: int | None,
    seed: int | None,
    cases: str,
    parallel: int,
    deterministic: bool,
    run_name: str | None,
    reports: Path,
    folders: tuple[Path, ...],
) -> None:
    """Run suites with models.

    A SUITE is a name that `plan bench list` shows, a file, or a folder with a suite.yaml. The run
    is kept in a folder, which is printed at the end. `plan bench resume` resumes it; `plan bench report` compares it.
    A run of several suites also writes one report on all of them.
    """
    from planloop.cli.bench_run import BenchRunOptions, run_suites

    asked = BenchRunOptions(
        names, is_all, models, trials, seed, cases, 1 if deterministic else parallel, deterministic, folders
    )
    run_suites(asked, run_name, reports)


@command.command("resume")
@click.argument("run", metavar="RUN")
@click.option("--suite", help="The edited suite: cases that have changed run again.")
@click.option(
    "--parallel", type=click.IntRange(1), default=4, show_default=True, help="How many cases run in parallel."
)
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="The folder for runs.")
def resume(run: str, suite: str | None, parallel: int, reports: Path) -> None:
    """Resume a run, and retry its errors.

    Unfinished trials continue, and trials that ended in an error run again. A RUN is its folder, or SUITE/RUN. With
    --suite, cases that have changed since also run again; no other case does.
    """
    from planloop.cli.bench_report import run_folder
    from planloop.cli.bench_run import resume_run

    resume_run(run_folder(run, reports), parallel, suite)


@command.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--all", "is_all", is_flag=True, help="All runs.")
@click.option("--name", help="The name of the report. Default: derived from the runs.")
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="The folder for runs.")
@output_option("json", "md", "html")
def report(runs: tuple[str, ...], is_all: bool, name: str | None, reports: Path, output: str | None) -> None:
    """Compare models over runs in one report. Without RUN, list the runs.

    A RUN is its folder, or SUITE/RUN. The report is written to reports/index as JSON, Markdown and HTML.
    """
    from planloop.cli import bench_report

    bench_report.make_report(bench_report.ReportOptions(runs, is_all, name, reports, output))


@command.command("validate")
@click.argument("names", nargs=-1, metavar="[SUITE]...")
@click.option("--all", "is_all", is_flag=True, help="All suites that `plan bench list` shows.")
@click.option("--cases", default="*", metavar="GLOB", help="Only cases whose id matches.")
@click.option(
    "--parallel", type=click.IntRange(1), default=4, show_default=True, help="How many proofs run in parallel."
)
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="The folder for runs.")
@_SUITES
@output_option("json", "yaml", "md")
def validate(
    names: tuple[str, ...],
    is_all: bool,
    cases: str,
    parallel: int,
    reports: Path,
    folders: tuple[Path, ...],
    output: str | None,
) -> None:
    """Check that suites measure what they claim.

    A SUITE is a name that `plan bench list` shows, a file, or a folder with a suite.yaml.

    The command runs the proofs of each case. Oracles must pass. Mutants must fail the checks that they name. Cheats and
    nop must fail. Every check must reject at least one mutant. Exit 1 if a proof fails.
    """
    from planloop.cli.bench_validate import ValidateOptions, validate_suites

    validate_suites(ValidateOptions(names, is_all, cases, parallel, reports, folders), output)


@command.group("import")
def import_() -> None:
    """Convert a public set of cases into a suite."""


@import_.command("exercism")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--track", type=click.Choice(TRACKS), required=True, help="The track in the folder.")
@click.option("--to", type=click.Path(path_type=Path), help="The folder for the suite. Default: exercism-TRACK.")
def import_exercism(folder: Path, track: str, to: Path | None) -> None:
    """Convert the practice exercises of an Exercism track, with all of the track's tests."""
    from planloop.cli import bench_suites

    bench_suites.import_exercism(folder, track, to)


@import_.command("bfcl")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--to", type=click.Path(path_type=Path), help="The folder for the suites. Default: bfcl.")
def import_bfcl(folder: Path, to: Path | None) -> None:
    """Convert the single-turn cases of the Berkeley Function Calling Leaderboard, version 4."""
    from planloop.cli import bench_suites

    bench_suites.import_bfcl(folder, to)
