"""The program for spark-submit: `spark-submit … app/pipeline/job/spark_submit.py batch …` is `attachment-gateway
pipeline batch …`."""

import sys
from importlib.metadata import entry_points
from pathlib import Path


def main() -> None:
    """Run the command `pipeline` of the installed package with this process's arguments."""
    (command,) = entry_points(group="console_scripts", name="attachment-gateway")
    sys.argv = [command.name, "pipeline", *sys.argv[1:]]
    command.load()()


if __name__ == "__main__":
    # A file run by its path has its own folder on the import path, so `tables` would mean the package beside it.
    sys.path[:] = [folder for folder in sys.path if Path(folder) != Path(__file__).parent]
    main()
