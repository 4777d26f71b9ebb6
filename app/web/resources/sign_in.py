"""Signing in at the OpenID provider, for pages: where to send people, and the exchange of what they come back with."""

from typing import Annotated, Any, Self

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field, model_validator
from starlette.concurrency import run_in_threadpool

from app.model.errors import GatewayError
from app.model.validation import CODE_VERIFIER
from app.service.access.authentication import Authenticator
from app.service.access.openid_sign_in import SignIn, SignInBusy, SignInRefused
from app.web.access.audit_trail import trail_of
from app.web.access.rate_limits import count_request
from app.web.dependencies.caller import operation_of
from app.web.dependencies.request_gateway import API, only_known_parameters
from app.web.http.json_body import read_json, request_body
from app.web.problems import Problem, responses


async def _anybody(request: Request) -> None:
    """Count a request of somebody who has no credentials yet, by the address."""
    operation_of(request)
    count_request(request, None)


router = APIRouter(
    prefix=f"{API}/sign-in",
    tags=["operations"],
    dependencies=[Depends(_anybody), Depends(only_known_parameters)],
    responses=responses("cross-origin", "rate-limited"),
)

Given = Annotated[str, Field(min_length=1, max_length=4096)]
Token = Annotated[str, Field(min_length=1, max_length=12_000)]


class ProviderView(BaseModel):
    """Where and as which client people sign in, by authorization code with PKCE (`S256`)."""

    authorization_endpoint: str = Field(examples=["https://login.example/realms/acme/protocol/openid-connect/auth"])
    client_id: str = Field(examples=["attachment-gateway-console"])
    scope: str = Field(examples=["openid offline_access"])
    parameters: dict[str, str] = Field(
        description="further parameters of the request", examples=[{"audience": "files"}]
    )


class SignInView(BaseModel):
    """How people sign in, in addition to API keys and tokens."""

    oidc: ProviderView | None = Field(description="null if the settings have no `oidc.client_id`")


class SignInDraft(BaseModel, extra="forbid"):
    """What to exchange: a code with all that belongs to it, or a refresh token alone."""

    code: Given | None = Field(default=None, description="that the provider has sent")
    code_verifier: Annotated[str, Field(pattern=CODE_VERIFIER)] | None = Field(
        default=None, description="whose SHA-256 was the `code_challenge`"
    )
    redirect_uri: Given | None = Field(default=None, description="the page to which the code was sent")
    nonce: Given | None = Field(default=None, description="that the ID token must have")
    refresh_token: Token | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        of_code = (self.code, self.code_verifier, self.redirect_uri, self.nonce)
        if self.refresh_token is not None and any(of_code):
            raise ValueError("give a refresh_token, or a code, not both")
        if self.refresh_token is None and not all(of_code):
            raise ValueError("give code, code_verifier, redirect_uri and nonce, or a refresh_token")
        return self


class TokensView(BaseModel):
    """The tokens that the provider issued. The access token is sent as `Authorization: Bearer`."""

    access_token: str
    expires_in: int | None = Field(description="seconds, if the provider says", examples=[300])
    refresh_token: str | None = Field(description="for the next access token, if the provider gives any")


@router.get("", operation_id="get_sign_in", responses=responses("provider-unavailable"))
def get_sign_in(request: Request) -> SignInView:
    """Return where people sign in. It needs no credentials."""
    sign_in = _sign_in(request)
    if sign_in is None:
        return SignInView(oidc=None)
    settings = sign_in.settings
    try:
        endpoint = sign_in.endpoints().authorization
    except GatewayError as error:
        raise Problem("provider-unavailable", str(error), {"Retry-After": "30"}) from None
    return SignInView(
        oidc=ProviderView(
            authorization_endpoint=endpoint,
            client_id=settings.client_id or "",
            scope=" ".join(settings.sign_in_scopes),
            parameters=settings.sign_in_parameters,
        )
    )


@router.post(
    "",
    operation_id="sign_in",
    responses=responses("sign-in-refused", "not-found", "malformed", "too-large", "busy", "provider-unavailable"),
    openapi_extra=request_body(SignInDraft),
)
async def sign_in(request: Request, response: Response) -> TokensView:
    """Exchange a code or a refresh token at the OpenID provider, and return what it issues.

    The gateway stores none of it. It verifies the ID token, whose nonce must be the one given. It needs no credentials.
    """
    found = _sign_in(request)
    if found is None:
        raise Problem("not-found", "OpenID sign-in is not configured; set oidc.client_id")
    draft = await read_json(request, SignInDraft)
    response.headers["Cache-Control"] = "no-store"
    try:
        if draft.refresh_token is not None:
            tokens = await run_in_threadpool(found.renew, draft.refresh_token)
        else:
            given: Any = (draft.code, draft.code_verifier, draft.redirect_uri, draft.nonce)
            tokens = await run_in_threadpool(found.exchange, *given)
    except SignInRefused as error:
        trail_of(request).details["reason"] = str(error)
        raise Problem("sign-in-refused", str(error)) from None
    except SignInBusy as error:
        raise Problem("busy", str(error), {"Retry-After": "1"}) from None
    except GatewayError as error:
        raise Problem("provider-unavailable", str(error), {"Retry-After": "5"}) from None
    return TokensView(**tokens._asdict())


def _sign_in(request: Request) -> SignIn | None:
    authenticator: Authenticator = request.app.state.authenticator
    return authenticator.sign_in
