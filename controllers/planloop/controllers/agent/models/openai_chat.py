"""Client of the OpenAI chat API, over aiohttp: OpenAI, Ollama, vLLM, llama.cpp and most vendors.

`OpenAIChatAdapter.complete` makes one attempt. `chat_request` writes its body in the dialect of the server,
`response_stream` splits the response into payloads, `reply_assembly` joins them to a reply, and `errors` classifies
error responses. The caller retries (`planloop.controllers.agent.turn.ask`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import aiohttp

from planloop.controllers.agent.models import errors, text_calls
from planloop.controllers.agent.models.catalog import ModelEndpoint, is_loopback
from planloop.controllers.agent.models.chat_request import ChatDialect, encode_body, lowered_for_request
from planloop.controllers.agent.models.errors import LoweredLimit
from planloop.controllers.agent.models.port import ModelFailed, ModelReply, ModelRequest, OnDelta, TokenUsage
from planloop.controllers.agent.models.reply_assembly import ReplyAssembly, ReplyTooLong
from planloop.controllers.agent.models.response_stream import BodyReader, Inflater, NotAnEventStream
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject


class OpenAIChatAdapter:
    """A client of any number of endpoints, for one asyncio event loop.

    It opens its connections with the first request and keeps them until `aclose`. `now` returns seconds since 1970.
    With `is_proxied`, requests to other machines use the proxy of the environment variables.
    """

    def __init__(self, now: Callable[[], float], *, is_proxied: bool = False) -> None:
        self._now = now
        self._is_proxied = is_proxied
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # By whether they use the proxy.
        self._dialects: dict[tuple[str, str], ChatDialect] = {}  # The dialects learned from errors, by URL and model.

    async def complete(
        self, endpoint: ModelEndpoint, request: ModelRequest, on_delta: OnDelta | None = None
    ) -> ModelReply:
        """Ask the model at `endpoint` once, within `request.timeout_s`, and return its whole reply.

        `on_delta` is called with each piece of text as it arrives, and with an empty text for any other chunk. If the
        server refuses an option, a field or the length of the reply, the request is changed and sent again. That costs
        no tokens, and later requests to this model use the form that was accepted.

        On a failure, a timeout or cancellation, the connection is closed before this returns, so that the server stops
        generating. Raises ModelFailed: `TimedOut`; `Unreachable` (no connection); `CutOff` (the response ended early);
        `Garbage` (it is not a reply); `BadRequest` (no HTTP URL, or a redirect); or the failure that `errors` finds in
        an error response. If the server had begun to answer, the failure has the usage that may be billed.
        """
        attempt = _Attempt(endpoint, request, on_delta)
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._negotiate(attempt)
        except aiohttp.ClientError as error:  # Before TimeoutError: some errors are both.
            raise _connection_failure(error, attempt) from None
        except TimeoutError:
            text = f"no complete answer from {endpoint.url} within {request.timeout_s:g} s"
            raise attempt.failure("TimedOut", text) from None
        except NotAnEventStream as error:
            raise attempt.failure("Garbage", f"{endpoint.url} sent an invalid reply: {error}") from None

    async def aclose(self) -> None:
        """Close all connections. A later request opens new ones."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def _negotiate(self, attempt: _Attempt) -> ModelReply:
        """Post the request until the server accepts its form, and remember the dialect that it accepted."""
        endpoint = attempt.endpoint
        key = (endpoint.url, endpoint.model)
        dialect = self._dialects.get(key, endpoint.dialect)
        while True:
            answer = await self._post(attempt, dialect)
            match answer:
                case ModelReply():
                    if attempt.has_stated_end and not dialect.states_end:
                        self._dialects[key] = replace(dialect, states_end=True)
                    return answer
                case ChatDialect():
                    dialect = self._dialects[key] = answer
                case LoweredLimit(tokens, is_models):
                    if is_models:
                        dialect = self._dialects[key] = replace(dialect, output_max=tokens)
                    else:
                        attempt.request = replace(attempt.request, output_tokens_max=tokens)

    async def _post(self, attempt: _Attempt, dialect: ChatDialect) -> ModelReply | ChatDialect | LoweredLimit:
        """The reply, or, if the server refused the form of the request, the dialect or the limit to try next."""
        endpoint = attempt.endpoint
        headers = {"Content-Type": "application/json", **dict(endpoint.headers)}
        if endpoint.key:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        content = encode_body(endpoint.model, attempt.request, dialect)
        url = f"{endpoint.url}/chat/completions"
        # If this is cancelled, aiohttp closes the connection.
        response = await self._session(endpoint.url).post(url, data=content, headers=headers, allow_redirects=False)
        try:
            if 200 <= response.status < 300:  # Some gateways answer each POST with 201.
                return await attempt.read_reply(response, dialect)
            body = Inflater().feed(await response.content.read(limits.OUTPUT_SHOWN_BYTES))
            next_form = attempt.lowered_limit(response.status, body, dialect) or dialect.after(
                response.status, body, attempt.request
            )
            if next_form is not None:
                return next_form
            raise self._refusal(response, body, endpoint)
        finally:
            _close(response)

    def _refusal(self, response: aiohttp.ClientResponse, body: bytes, endpoint: ModelEndpoint) -> ModelFailed:
        if 300 <= response.status < 400:
            location = response.headers.get("Location", "elsewhere")
            return ModelFailed("BadRequest", f"{endpoint.url} redirects to {location}: state that URL in the plan")
        headers = {name.lower(): value for name, value in response.headers.items()}
        wait_s = errors.retry_after_s(headers, self._now())
        return errors.failure_of_status(
            response.status, body, retry_after_s=wait_s, key_hint=endpoint.key_hint, secrets=endpoint.secrets
        )

    def _session(self, url: str) -> aiohttp.ClientSession:
        is_proxied = self._is_proxied and not is_loopback(url)
        if is_proxied not in self._sessions:
            self._sessions[is_proxied] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # The pools of the engine bound the requests.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.MODEL_CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "planloop", "Accept-Encoding": "gzip"},
                trust_env=is_proxied,
                auto_decompress=False,  # The header about compression can be wrong: `Inflater` looks at the body.
                max_line_size=limits.MODEL_HEADER_BYTES_MAX,
                max_field_size=limits.MODEL_HEADER_BYTES_MAX,
            )
        return self._sessions[is_proxied]


class _Attempt:
    """One request and the part of its reply that has arrived, to estimate the usage of a failed attempt."""

    def __init__(self, endpoint: ModelEndpoint, request: ModelRequest, on_delta: OnDelta | None) -> None:
        self.endpoint = endpoint
        self.request = request
        self._on_delta = on_delta
        self._assembly = ReplyAssembly()
        self._has_begun = False
        self._times_lowered = 0

    @property
    def prompt(self) -> tuple[bytes, ...]:
        """The part of the request that the model reads, for an estimate of its tokens."""
        return (*self.request.messages, self.request.tools)

    @property
    def has_stated_end(self) -> bool:
        """Whether the server stated why the reply ended."""
        return bool(self._assembly.finish)

    def failure(self, reason: str, text: str, *, is_transient: bool = True) -> ModelFailed:
        """A failure of this attempt, with the usage that may be billed and without secrets."""
        usage = self._usage() if self._has_begun else None
        text = errors.mask_secrets(text, self.endpoint.secrets)
        return ModelFailed(reason, text, is_transient=is_transient, usage=usage)

    def lowered_limit(self, status: int, body: bytes, dialect: ChatDialect) -> LoweredLimit | None:
        """The length of the reply to ask for instead of a refused one.

        None if the error has another cause, or after `limits.MODEL_LOWERED_MAX` attempts.
        """
        found = (
            lowered_for_request(status, body, self.request, dialect)
            if self._times_lowered < limits.MODEL_LOWERED_MAX
            else None
        )
        self._times_lowered += found is not None
        return found

    async def read_reply(self, response: aiohttp.ClientResponse, dialect: ChatDialect) -> ModelReply:
        """Read the reply from a successful response, streamed or whole. Raises ModelFailed, NotAnEventStream,
        ClientError.
        """
        self._has_begun = True
        body = BodyReader()
        try:
            await self._read_body(response, body)
        except aiohttp.ClientError:
            if not self._is_complete_without_end(body):
                raise
        # The server of llama-cpp-python ends a stream with a bare `[DONE]` if another request interrupts it. Other
        # servers never state why a reply ended, so a missing reason is a failure only if this server has stated one.
        is_whole = body.is_done and not (dialect.states_end and not self._assembly.is_counted)
        if body.is_stream and not (is_whole or self._assembly.finish):
            raise self.failure("CutOff", f"{self.endpoint.url} ended the stream before the reply was complete")
        if self._assembly.is_empty and not self._assembly.finish:
            raise NotAnEventStream("it is empty")
        failure = self._assembly.failure(self.endpoint.url, self.prompt)
        if failure is not None:
            raise failure
        return text_calls.calls_from_text(self._assembly.reply(self.prompt), self.request.tools)

    async def _read_body(self, response: aiohttp.ClientResponse, body: BodyReader) -> None:
        async for piece in response.content.iter_any():
            for payload in body.feed(piece):
                self._take(payload)
            if body.is_done:
                await _drain(response)
                return
        for payload in body.end():
            self._take(payload)

    def _is_complete_without_end(self, body: BodyReader) -> bool:
        """Whether the reply was complete before the connection broke: the server stated its end, not in every chunk.

        Some proxies close the connection without the last chunk of the encoding, or state a length that is too large.
        """
        with suppress(NotAnEventStream):
            for payload in body.end():
                self._take(payload)
            return bool(self._assembly.finish) and self._assembly.ends <= limits.REPLY_ENDS_MAX
        return False

    def _take(self, payload: Json) -> None:
        if isinstance(payload, list) and len(payload) == 1:
            payload = payload[0]  # Gemini puts its errors into a list, also in a stream.
        if not isinstance(payload, dict):
            raise NotAnEventStream("an event is not an object")
        error = errors.find_error(payload)
        if error is not None:
            raise self._failure_in_stream(payload, error)
        try:
            text = self._assembly.take(payload)
        except ReplyTooLong as problem:
            raise NotAnEventStream(str(problem)) from None
        except ValueError as problem:
            raise NotAnEventStream(f"an event is malformed ({problem})") from None
        if self._on_delta is not None:
            self._on_delta(text)

    def _failure_in_stream(self, payload: JsonObject, error: Json) -> ModelFailed:
        with suppress(ValueError):
            self._assembly.take(payload)  # The payload may have the usage.
        failure = errors.failure_in_stream(error, key_hint=self.endpoint.key_hint, secrets=self.endpoint.secrets)
        failure.usage = self._usage()
        return failure

    def _usage(self) -> TokenUsage:
        return self._assembly.usage(self.prompt)


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read the rest of a body, so that aiohttp keeps the connection open. It usually came with the last event."""
    if response.content.at_eof():
        return
    try:
        async with asyncio.timeout(limits.MODEL_LINGER_S):
            while await response.content.readany():
                pass
    except (TimeoutError, aiohttp.ClientError):
        return  # The reply is complete; the connection is closed.


def _close(response: aiohttp.ClientResponse) -> None:
    """Close the response; abort its connection unless the body was read whole, so that the server stops generating."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _connection_failure(error: aiohttp.ClientError, attempt: _Attempt) -> ModelFailed:
    """The failure that an error of aiohttp means."""
    endpoint = attempt.endpoint
    start = f"; {endpoint.start}" if endpoint.start else "; check its `url`, and that the server runs"
    match error:
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return ModelFailed("BadRequest", f"`{endpoint.url}` is not an HTTP URL")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            text = f"this machine does not trust the certificate of {endpoint.url}: {error}"
            return attempt.failure("Unreachable", text, is_transient=False)
        case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
            text = f"the proxy refused the connection to {endpoint.url}: {error}"
            return attempt.failure("Unreachable", text)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            why = error.strerror or f"no connection within {limits.MODEL_CONNECT_S:g} s"
            return attempt.failure("Unreachable", f"cannot reach {endpoint.url}: {why}{start}")
        case aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError():
            text = f"the connection to {endpoint.url} ended before the reply did: {error}"
            return attempt.failure("CutOff", text)
        case _:
            return attempt.failure("Garbage", f"{endpoint.url} sent an invalid HTTP response: {error}")
