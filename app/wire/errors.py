"""The one error of the layout engine."""


class WireError(ValueError):
    """Bytes or values that do not fit a layout.

    `row` is the dotted path of the row (`AttachmentHeader.attachments[0].description`). `at` is the byte of the message
    where the error is, and `why` explains it in a sentence.
    """

    def __init__(self, row: str, at: int, why: str) -> None:
        super().__init__(row, at, why)
        self.row, self.at, self.why = row, at, why

    def __str__(self) -> str:
        return f"{self.row} at byte {self.at}: {self.why}"
