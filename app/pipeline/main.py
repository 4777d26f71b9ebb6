"""What spark-submit runs: `spark-submit … app/pipeline/main.py batch …` is `attachment-gateway pipeline batch …`."""

import sys
from importlib.metadata import entry_points
from pathlib import Path


def main() -> None:
    """Runs the command `pipeline` of the installed package with this process's arguments."""
    (command,) = entry_points(group="console_scripts", name="attachment-gateway")
    sys.argv = [command.name, "pipeline", *sys.argv[1:]]
    command.load()()


if __name__ == "__main__":
    # Run by its path, a file has its own folder among those to import from, and `tables` would mean the one beside it.
    sys.path[:] = [folder for folder in sys.path if Path(folder) != Path(__file__).parent]
    main()
