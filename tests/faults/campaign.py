"""The long form: one scenario after the other, all drawn from one seed, until enough faults have occurred.

make faults ARGS="--seed 7 --faults 1000"
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.judging import Verdict, summed
from tests.faults.scenarios import SCENARIOS, run


def main() -> int:
    arguments = _arguments()
    chosen = arguments.only or list(SCENARIOS)
    total, number = Verdict(), 0
    while total.faults < arguments.faults:
        name = chosen[number % len(chosen)]
        seed = f"{arguments.seed}.{number // len(chosen)}"
        begun = time.monotonic()
        with TemporaryDirectory(prefix="faults-") as folder:
            verdict = run(SCENARIOS[name], seed, Path(folder), SCENARIOS[name].most if arguments.long else None)
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
        choices=list(SCENARIOS),
        help="run only this scenario (default: all); may be repeated",
    )
    parser.add_argument("--short", dest="long", action="store_false", help="draw each kind only once per scenario")
    parser.add_argument("--tell", action="store_true", help="print what happened in successful scenarios, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
