"""Models behind an OpenAI-compatible chat API, over aiohttp: OpenAI, Ollama, vLLM, llama.cpp and most vendors.

One session for the loop, opened at the first request; a second one for this machine, where no proxy stands between.
A cancelled or timed out request has its connection closed before
it returns, so that the server stops writing what nobody will read. One attempt is one request, except that a server
which refuses an option that not all know is asked again without it: that costs no tokens, and is remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

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
    """Asks endpoints. `now` is wall time in seconds; `is_proxied` goes through the proxy that the environment names."""

    def __init__(self, now: Callable[[], float], *, is_proxied: bool = False) -> None:
        self._now = now
        self._is_proxied = is_proxied
        self._opened: dict[bool, aiohttp.ClientSession] = {}  # By whether it goes through a proxy.
        self._dialects: dict[tuple[str, str], ChatDialect] = {}

    async def complete(
        self, endpoint: ModelEndpoint, request: ModelRequest, on_delta: OnDelta | None = None
    ) -> ModelReply:
        """One attempt at `endpoint`. Raises ModelFailed; only while a loop runs asyncio."""
        asking = _Asking(endpoint, request, on_delta)
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._negotiate(asking)
        except aiohttp.ClientError as fault:  # First: some of these are TimeoutErrors too.
            _raise_broken(fault, asking)
        except TimeoutError:
            text = f"no complete answer from {endpoint.url} within {request.timeout_s:g} s"
            raise asking.failed("TimedOut", text) from None
        except NotAnEventStream as fault:
            raise asking.failed("Garbage", f"{endpoint.url} sent no reply: {fault}") from None

    async def aclose(self) -> None:
        """Closes all connections; a later request opens new ones."""
        sessions, self._opened = self._opened, {}
        for session in sessions.values():
            await session.close()

    async def _negotiate(self, asking: _Asking) -> ModelReply:
        endpoint = asking.endpoint
        place = (endpoint.url, endpoint.model)
        dialect = self._dialects.get(place, endpoint.dialect)
        while True:
            answer = await self._ask(asking, dialect)
            if isinstance(answer, ModelReply):
                if asking.has_stated_end and not dialect.states_end:
                    self._dialects[place] = replace(dialect, states_end=True)
                return answer
            if isinstance(answer, ChatDialect):
                dialect = self._dialects[place] = answer
            elif answer.is_models:
                dialect = self._dialects[place] = replace(dialect, output_max=answer.tokens)
            else:
                asking.request = replace(asking.request, output_tokens_max=answer.tokens)

    async def _ask(self, asking: _Asking, dialect: ChatDialect) -> ModelReply | ChatDialect | LoweredLimit:
        """The reply, or the dialect or the length to ask with instead."""
        endpoint = asking.endpoint
        headers = {"Content-Type": "application/json", **dict(endpoint.headers)}
        if endpoint.key:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        body = encode_body(endpoint.model, asking.request, dialect)
        url = f"{endpoint.url}/chat/completions"
        # Cancelled in here, aiohttp closes the connection itself.
        response = await self._session(endpoint.url).post(url, data=body, headers=headers, allow_redirects=False)
        try:
            if 200 <= response.status < 300:  # Some gateways answer each POST with 201.
                return await asking.read(response, dialect)
            said = Inflater().feed(await response.content.read(limits.OUTPUT_SHOWN_BYTES))
            instead = asking.lowered(response.status, said, dialect) or dialect.after(
                response.status, said, asking.request
            )
            if instead is not None:
                return instead
            raise self._refusal(response, said, endpoint)
        finally:
            _hang_up(response)

    def _refusal(self, response: aiohttp.ClientResponse, said: bytes, endpoint: ModelEndpoint) -> ModelFailed:
        if 300 <= response.status < 400:
            where = response.headers.get("Location", "elsewhere")
            return ModelFailed("BadRequest", f"{endpoint.url} redirects to {where}: state that `url`")
        headers = {name.lower(): value for name, value in response.headers.items()}
        wait_s = errors.retry_after_s(headers, self._now())
        return errors.failure_of_status(
            response.status, said, retry_after_s=wait_s, cure=endpoint.cure, secrets=endpoint.secrets
        )

    def _session(self, url: str) -> aiohttp.ClientSession:
        is_proxied = self._is_proxied and not is_loopback(url)
        if is_proxied not in self._opened:
            self._opened[is_proxied] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # The work plane's pools are the bound.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.MODEL_CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "planloop", "Accept-Encoding": "gzip"},
                trust_env=is_proxied,
                auto_decompress=False,  # The body shows whether it is compressed; headers are wrong at times.
                max_line_size=limits.MODEL_HEADER_BYTES_MAX,
                max_field_size=limits.MODEL_HEADER_BYTES_MAX,
            )
        return self._opened[is_proxied]


class _Asking:
    """One request on its way: what came so far is known however it ends."""

    def __init__(self, endpoint: ModelEndpoint, request: ModelRequest, on_delta: OnDelta | None) -> None:
        self.endpoint = endpoint
        self.request = request
        self._on_delta = on_delta
        self._assembly = ReplyAssembly()
        self._has_begun = False
        self._times_lowered = 0

    def lowered(self, status: int, said: bytes, dialect: ChatDialect) -> LoweredLimit | None:
        """The length to ask for instead of one that was refused; a server that is never content is not believed."""
        found = (
            lowered_for_request(status, said, self.request, dialect)
            if self._times_lowered < limits.MODEL_LOWERED_MAX
            else None
        )
        self._times_lowered += found is not None
        return found

    async def read(self, response: aiohttp.ClientResponse, dialect: ChatDialect) -> ModelReply:
        """The reply in the body of a 200, streamed or whole. Raises ModelFailed, NotAnEventStream, ClientError.

        llama-cpp-python's server ends a stream with a bare `[DONE]` when another request interrupts it, but some
        servers never state why a reply ended. So a missing reason counts where the server has stated one before.
        """
        self._has_begun = True
        body = BodyReader()
        try:
            await self._take_all(response, body)
        except aiohttp.ClientError:
            if not self._may_stand(body):
                raise
        is_whole = body.is_done and not (dialect.states_end and not self._assembly.is_counted)
        if body.is_stream and not (is_whole or self._assembly.finish):
            raise self.failed("CutOff", f"{self.endpoint.url} ended the stream before the reply was complete")
        if self._assembly.is_empty and not self._assembly.finish:
            raise NotAnEventStream("there was nothing in it")
        failure = self._assembly.failure(self.endpoint.url, self.prompt)
        if failure is not None:
            raise failure
        return text_calls.calls_from_text(self._assembly.reply(self.prompt), self.request.tools)

    async def _take_all(self, response: aiohttp.ClientResponse, body: BodyReader) -> None:
        async for piece in response.content.iter_any():
            for payload in body.feed(piece):
                self._take(payload)
            if body.is_done:
                await _drain(response)
                return
        for payload in body.end():
            self._take(payload)

    def _may_stand(self, body: BodyReader) -> bool:
        """Whether all of the reply came before the connection broke: the server stated its end, and not in each piece.

        Some proxies close without the last chunk of their own, or state a length that is too large.
        """
        with suppress(NotAnEventStream):
            for payload in body.end():
                self._take(payload)
            return bool(self._assembly.finish) and self._assembly.ends <= limits.REPLY_ENDS_MAX
        return False

    @property
    def has_stated_end(self) -> bool:
        """Whether the server said why the reply ended."""
        return bool(self._assembly.finish)

    @property
    def prompt(self) -> tuple[bytes, ...]:
        """What the model reads, for an estimate of its tokens."""
        return (*self.request.messages, self.request.tools)

    def failed(self, reason: str, text: str, *, is_transient: bool = True) -> ModelFailed:
        """The failure, with what the provider may bill for what it did until then."""
        usage = self._usage() if self._has_begun else None
        text = errors.mask_secrets(text, self.endpoint.secrets)
        return ModelFailed(reason, text, is_transient=is_transient, usage=usage)

    def _take(self, payload: Json) -> None:
        if isinstance(payload, list) and len(payload) == 1:
            payload = payload[0]  # Gemini puts its errors into a list, in streams too.
        if not isinstance(payload, dict):
            raise NotAnEventStream("an event is no object")
        error = errors.find_error(payload)
        if error is not None:
            raise self._refused(payload, error)
        try:
            text = self._assembly.take(payload)
        except ReplyTooLong as fault:
            raise NotAnEventStream(str(fault)) from None
        except ValueError as fault:
            raise NotAnEventStream(f"an event of another shape ({fault})") from None
        if self._on_delta is not None:
            self._on_delta(text)

    def _refused(self, payload: JsonObject, error: Json) -> ModelFailed:
        with suppress(ValueError):
            self._assembly.take(payload)  # For what it says of usage.
        failure = errors.failure_in_stream(error, cure=self.endpoint.cure, secrets=self.endpoint.secrets)
        failure.usage = self._usage()
        return failure

    def _usage(self) -> TokenUsage:
        """What came so far."""
        return self._assembly.usage(self.prompt)


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Reads what closes the body, which came with the last event as a rule: a body read whole keeps its connection."""
    if response.content.at_eof():
        return
    try:
        async with asyncio.timeout(limits.MODEL_LINGER_S):
            while await response.content.readany():
                pass
    except (TimeoutError, aiohttp.ClientError):
        return  # The reply is complete; only the connection is not used again.


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Closes the connection of a body that was not read whole, at once: a closing handshake would let it run on."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _raise_broken(fault: aiohttp.ClientError, asking: _Asking) -> NoReturn:
    """What went wrong on the way, in the port's words."""
    endpoint = asking.endpoint
    start = f"; {endpoint.start}" if endpoint.start else "; is its `url` right, and does the server run?"
    match fault:
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            raise ModelFailed("BadRequest", f"`{endpoint.url}` is no URL of an HTTP server") from None
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            text = f"{endpoint.url} has no certificate that this machine trusts: {fault}"
            raise asking.failed("Unreachable", text, is_transient=False) from None
        case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
            text = f"the proxy does not let us through to {endpoint.url}: {fault}"
            raise asking.failed("Unreachable", text) from None
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            why = fault.strerror or f"no connection within {limits.MODEL_CONNECT_S:g} s"
            raise asking.failed("Unreachable", f"cannot reach {endpoint.url}: {why}{start}") from None
        case aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError():
            text = f"the connection to {endpoint.url} ended before the reply did: {fault}"
            raise asking.failed("CutOff", text) from None
        case _:
            raise asking.failed("Garbage", f"{endpoint.url} does not speak HTTP as it should: {fault}") from None
