"""The server's certificate, which is read again when its files change."""

import ssl
from pathlib import Path

from app.model.errors import GatewayError
from app.observe import Recurring, logger
from app.settings import Http

CERTIFICATE_SECONDS = 10
"""How often the files of the certificate are looked at."""

log = logger(__name__)

_Seen = tuple[tuple[int, int, int], ...]


class Certificate:
    """The certificate and the key of `http.cert_file` and `http.key_file`.

    New connections get the newest pair. Open ones keep theirs. A pair that cannot be used is logged, and the one before
    stays: certificate and key are two files, which cannot be replaced at one moment.
    """

    def __init__(self, http: Http) -> None:
        assert http.cert_file is not None
        self._cert, self._key = http.cert_file, http.key_file or http.cert_file
        self._fault = Recurring(log, "certificate_reload")
        self._seen = self._stamps()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        try:
            self._load(self.context)
        except (OSError, ValueError) as error:
            raise GatewayError(
                f"the certificate {self._cert} with the key {self._key} cannot be used: {error}"
            ) from error

    async def refresh(self) -> None:
        """Use the files again if they have changed. Errors are logged."""
        seen = self._stamps()
        if seen == self._seen:
            return
        try:
            # A context whose certificate loads and whose key does not could serve nobody: try both on another one.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
        except (OSError, ValueError) as error:
            self._fault.failed(f"the certificate {self._cert} with the key {self._key} cannot be used: {error}")
            return
        self._seen = seen
        self._fault.worked()
        log.info("certificate_reloaded", file=str(self._cert))

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._cert, self._key, password=lambda: "")

    def _stamps(self) -> _Seen:
        return tuple(_stamp(path) for path in (self._cert, self._key))


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size
