"""The long form: one scenario after the other, all drawn from one seed, until enough faults have occurred.

make faults ARGS="--seed 7 --faults 1000"
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults import missing_parts, pipeline, receivers, replicas
from tests.faults.judging import Verdict, summed
from tests.faults.scenarios import SCENARIOS, run

Round = Callable[..., Verdict]
"""One run of a scenario: from a seed, in a folder, with at most this number of faults, or None for the short form.

Those of receivers send a number of `attachments` at least.
"""

ROUNDS: dict[str, tuple[Round, int]] = {
    **{name: (partial(run, scenario), scenario.most) for name, scenario in SCENARIOS.items()},
    "missing parts": (missing_parts.run, missing_parts.MOST),
    "replicas": (replicas.run, replicas.MOST),
    "receivers": (receivers.run, receivers.MOST),
    "receivers without disks": (partial(receivers.run, ack="archive"), receivers.MOST),
    "receivers and Spark": (partial(receivers.run, assembler="spark"), receivers.MOST),
    "receivers without disks, and Spark": (
        partial(receivers.run, ack="archive", assembler="spark"),
        receivers.MOST,
    ),
    **{f"pipeline {host}": (partial(pipeline.run, host), pipeline.MOST) for host in pipeline.HOSTS},
}
"""All scenarios, and the number of faults that one round of the long form draws."""


def main() -> int:
    arguments = _arguments()
    chosen = [name for name in ROUNDS if not arguments.only or name.startswith(tuple(arguments.only))]
    total, number = Verdict(), 0
    while total.faults < arguments.faults:
        name = chosen[number % len(chosen)]
        seed = f"{arguments.seed}.{number // len(chosen)}"
        begun = time.monotonic()
        # A process that was killed may have left another one, which still writes for a moment.
        with TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
            begin, most = ROUNDS[name]
            if name.startswith("receivers"):
                begin = partial(begin, attachments=arguments.attachments)
            count = min(most, arguments.faults - total.faults)
            verdict = begin(seed, Path(folder), count if arguments.long else None)
            total = summed((total, verdict))
            told = verdict.notes if arguments.tell or not verdict.is_kept else ()
            first = f"{name} {seed}: {verdict.line}  ({time.monotonic() - begun:.0f} s)"
            sys.stderr.write("\n    ".join((first, *told)) + "\n")
        number += 1
    sys.stdout.write(f"{total.line}\n")
    return 0 if total.is_kept else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faults", description="Break the gateway, and see what holds.")
    parser.add_argument("--seed", default="1", help="seed from which everything is drawn")
    parser.add_argument("--faults", type=int, default=1000, help="continue until this number of faults has occurred")
    parser.add_argument(
        "--only",
        action="append",
        type=_beginning,
        metavar="NAME",
        help=f"run only scenarios whose name begins so (default: all); may be repeated: {', '.join(ROUNDS)}",
    )
    parser.add_argument(
        "--attachments", type=int, default=0, help="the small attachments that each round of receivers gets at least"
    )
    parser.add_argument("--short", dest="long", action="store_false", help="draw each kind only once per scenario")
    parser.add_argument("--tell", action="store_true", help="print what happened in successful scenarios, too")
    return parser.parse_args()


def _beginning(text: str) -> str:
    if not any(name.startswith(text) for name in ROUNDS):
        raise argparse.ArgumentTypeError(f"unknown scenario {text!r}; there are {', '.join(ROUNDS)}")
    return text


if __name__ == "__main__":
    sys.exit(main())
