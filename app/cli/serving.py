"""`serve`: run the gateway."""

import os

from app.cli.configuring import Config, read
from app.cli.console import Failure
from app.model.errors import GatewayError
from app.observe import configure_logging
from app.plugins import PluginError


def serve(path: Config = None) -> None:
    """Run the gateway until Ctrl-C or a signal ends it."""
    # Arrow reads this once, when it is loaded. Its own pool keeps freed memory, and is no faster here.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    settings = read(path)
    configure_logging(settings.log.level, settings.log.format)
    from app.main import serve as run  # noqa: PLC0415 - a second of imports that no other command should wait for

    try:
        run(settings)
    except (PluginError, GatewayError, OSError) as error:
        raise Failure(str(error)) from error
