"""The key that signs receipts, as its file has it now."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.codecs.receipts.cose import private_key
from app.model.errors import GatewayError
from app.settings import ReceiptSettings


class SigningKey:
    """The private key of the settings.

    Each use reads its file again, since keys are rotated. A file without a key, as one that is being written, leaves
    the key before."""

    def __init__(self, settings: ReceiptSettings) -> None:
        self._settings = settings
        self._read: tuple[str, Ed25519PrivateKey] | None = None

    def current(self) -> Ed25519PrivateKey:
        """Return the key. Raises GatewayError if there is none."""
        text, read = self._settings.key.get_secret_value(), self._read
        if read is None or read[0] != text:
            try:
                read = text, private_key(text)
            except ValueError as error:
                if read is None:
                    raise GatewayError(f"receipts.key cannot be used: {error}") from None
            self._read = read
        return read[1]
