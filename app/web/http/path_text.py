"""The path parameter `text`: any characters, including slashes and line ends."""

from starlette.convertors import Convertor, register_url_convertor


class _AnyText(Convertor[str]):
    """The converter of the path parameter."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("text", _AnyText())
