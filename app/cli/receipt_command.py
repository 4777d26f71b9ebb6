"""`receipt`: fetch receipts and tree heads, and verify them without a gateway."""

import json
import sys
from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Annotated, Any

import typer
from attachment_gateway_client import Problem
from typer.core import TyperGroup

from app.cli.command_files import whole_file
from app.cli.rest_client import DEFAULT_URL, Url, connect, located
from app.cli.terminal import Failure, Json, err, facts, out, print_json
from app.codecs.receipts import cose, statements
from app.codecs.receipts.statements import ReceiptInvalid, TreeHead
from app.model.times import to_time


class _FetchByDefault(TyperGroup):
    """The commands, of which `get` is meant where an identifier stands in place of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        is_identifier = args and args[0] not in self.commands and not args[0].startswith("-")
        return super().resolve_command(ctx, ["get", *args] if is_identifier else args)


receipt = typer.Typer(
    cls=_FetchByDefault, no_args_is_help=True, help="Fetch signed receipts, and verify them without a gateway."
)

Identifier = Annotated[str, typer.Argument(metavar="ID", help="Identifier of an attachment or a delivery.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it; - for standard output.")
]
OlderHead = Annotated[
    Path | None,
    typer.Option("--head", metavar="OLD_HEAD", help="A tree head: get the proof that the log continues it, too."),
]


@receipt.command("get")
def get_receipt(
    identifier: Identifier, output: Output = None, *, older: OlderHead = None, url: Url = DEFAULT_URL
) -> None:
    """Fetch the receipt of an attachment or a delivery. `get` may be left out.

    It is written to ID.receipt.cose by default.
    """
    parameters = _since(older)
    with connect(url) as client:
        try:
            content = client.request("GET", f"{located('attachments', identifier)}/receipt", params=parameters).content
        except Problem as problem:
            if problem.type != "/problems/not-found":
                raise
            content = client.request("GET", f"{located('deliveries', identifier)}/receipt", params=parameters).content
    _write(content, output or f"{identifier}.receipt.cose")


@receipt.command("head")
def get_head(output: Output = None, *, older: OlderHead = None, url: Url = DEFAULT_URL) -> None:
    """Fetch the newest tree head of the log. It is written to receipt-log.cose by default."""
    parameters = _since(older)
    with connect(url) as client:
        content = client.request("GET", "receipt-log/head", params=parameters).content
    _write(content, output or "receipt-log.cose")


@receipt.command("key")
def get_key(output: Output = None, *, url: Url = DEFAULT_URL) -> None:
    """Fetch the public key. It is written to receipts.pub.pem by default.

    Compare it once with the key file of the gateway, by another way than this.
    """
    with connect(url) as client:
        pem = client.get("receipt-log")["public_key"]
    if pem is None:
        raise Failure("the gateway makes no receipts now, and so shows no key")
    _write(pem.encode(), output or "receipts.pub.pem")


@receipt.command()
def verify(
    given: Annotated[Path, typer.Argument(metavar="RECEIPT", help="A receipt, or a tree head.")],
    *,
    keys: Annotated[
        list[Path],
        typer.Option("--key", "-k", metavar="PUB", help="A public key in PEM; may be repeated, as keys are rotated."),
    ],
    content: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="CONTENT", help="The content that the receipt is about.")
    ] = None,
    older: Annotated[
        list[Path] | None, typer.Option("--head", metavar="OLD_HEAD", help="A tree head that the log must continue.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a receipt or a tree head by public keys alone, without a gateway.

    The exit status is 0 only if all of it holds.
    """
    sealed, ring = _read(given), statements.key_ring([_public_key(each) for each in keys])
    heads = [_read(each) for each in older or ()]
    try:
        if statements.is_head(sealed):
            if content is not None:
                raise Failure(f"{given} is a tree head, which is about no content", "leave out --file")
            return _tell(given, _of_head(statements.verify_head(sealed, ring, heads)), {}, as_json=as_json)
        verified = statements.verify_statement(sealed, ring, heads)
        said: dict[str, Any] = json.loads(verified.statement)
    except ReceiptInvalid as error:
        raise Failure(f"{given} does not hold: {error}") from error
    except ValueError as error:
        raise Failure(f"{given} is a receipt for another kind of statement: it is no JSON") from error
    if content is not None:
        with content.open("rb") as file:
            digest, size = file_digest(file, "sha256").hexdigest(), file.tell()
        told: Sequence[dict[str, Any]] = said.get("attachments", [said])
        if not any((each.get("sha256"), each.get("size")) == (digest, size) for each in told):
            wanted = ", ".join(f"{each.get('sha256')} ({each.get('size'):,} bytes)" for each in told)
            raise Failure(f"{content} has the SHA-256 {digest} ({size:,} bytes), and the receipt is for {wanted}")
    log = {"place": verified.place, **_of_head(verified.head), "proof_since": verified.proved}
    return _tell(given, log, said, as_json=as_json)


def _since(older: Path | None) -> dict[str, int]:
    """Return the parameter that asks for the proof since an older head."""
    if older is None:
        return {}
    try:
        size = statements.head_of(cose.decode(_read(older))).size
    except (cose.Malformed, ReceiptInvalid) as error:
        raise Failure(f"{older} is no tree head: {error}") from error
    return {"since": size} if size else {}


def _write(content: bytes, output: str) -> None:
    if output == "-":
        sys.stdout.buffer.write(content)
        return
    with whole_file(Path(output)) as file:
        file.write(content)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(cose.MOST_BYTES + 1)


def _public_key(path: Path) -> Any:
    try:
        return cose.public_key(_read(path))
    except ValueError as error:
        raise Failure(
            f"{path} cannot be used: {error}", "give the public key: openssl pkey -in PRIVATE.pem -pubout"
        ) from error


def _of_head(head: TreeHead) -> dict[str, Any]:
    return {
        "log": head.log,
        "issuer": head.issuer,
        "size": head.size,
        "root": head.root.hex(),
        "signed_at": to_time(head.signed_at * 1_000_000).isoformat(),
        "key_id": head.key_id.hex(),
    }


def _tell(given: Path, log: dict[str, Any], said: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json([{"log": log, **({"statement": said} if said else {})}])
        return
    whole = said | {name if name == "log" else f"log {name}": value for name, value in log.items()}
    shown = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in whole.items()
        if value not in (None, [], "")
    }
    out.print(facts(shown.items()))
    err.print(f"{given} holds", markup=False, highlight=False)
