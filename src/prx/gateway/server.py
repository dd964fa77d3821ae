"""Runs a gateway in this process, and stops it in an order that loses no record.

Stop: ready no more, accept nothing new, let requests finish until the drain time is over, cut the rest
(each gets its error and its record), and only then close the recorder, which brings everything to the
disk. A second signal skips the draining.
"""

import asyncio
import contextlib
import logging
import signal
import socket

import uvicorn

from prx.domain.errors import SettingsError
from prx.gateway.api import Api
from prx.gateway.connections import Connection, Limits, Patience
from prx.gateway.metrics import Metrics
from prx.gateway.prompts.book import PromptBook
from prx.gateway.proxy import Proxy
from prx.gateway.recorder import Recorder
from prx.gateway.rules import GatewayRules
from prx.gateway.traces import PATH as TRACES
from prx.gateway.upstream import Upstream
from prx.gateway.wire import Receive, Scope, Send

_LOG = logging.getLogger("prx.gateway")
_OWN_PATHS = frozenset({"/livez", "/readyz", "/health", "/metrics", TRACES})
_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 1.0
_STEP = 0.02


class Gateway:
    """One gateway; `run` serves until it is told to stop."""

    def __init__(
        self, rules: GatewayRules, recorder: Recorder, metrics: Metrics, prompts: PromptBook
    ) -> None:
        self._rules, self._recorder, self._prompts = rules, recorder, prompts
        self.metrics = metrics
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self.port = rules.port

    def managed(self, agent: str) -> tuple[str, ...]:
        """Names of the agent's accepted prompts, as they are served now."""
        return self._prompts.names(agent)

    def stop(self) -> None:
        """Begin to stop; a second call stops without draining."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def run(self, listener: socket.socket, started: "asyncio.Event | None" = None) -> None:
        """Serve on a listening socket until `stop`; every record is on the disk when this returns."""
        upstream = Upstream(self._rules)
        proxy = Proxy(self._rules, self._recorder, upstream, self.metrics, self._prompts)
        api = Api(self._rules, self._recorder, self.metrics, lambda: len(proxy.under_way))
        server = _server(_application(proxy, api))
        self.port = listener.getsockname()[1]
        self._prompts.start()
        for agent in ("default", *self._prompts.agents):
            # What they are served is read now, so that the first request of each finds it.
            self._recorder.poller(agent)
        work = (self._look(), self._hurry_clients(server), proxy.watch_clients())
        watching = [asyncio.create_task(one) for one in work]
        try:
            await server.startup(sockets=[listener])
            ticking = asyncio.create_task(server.main_loop())
            with self._signals():
                if started is not None:
                    started.set()
                await self._stop.wait()
                api.ready = False
                for one in server.servers:
                    one.close()
                await self._drain(server, proxy)
            server.should_exit = True
            await ticking
        finally:
            for task in watching:
                task.cancel()
            await upstream.close()
            self._prompts.close()
            self._recorder.close()

    async def _drain(self, server: uvicorn.Server, proxy: Proxy) -> None:
        state = server.server_state
        for connection in list(state.connections):
            connection.shutdown()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._rules.drain_seconds
        while proxy.under_way and loop.time() < until and not self._hurry.is_set():
            await asyncio.sleep(_STEP)
        cut = proxy.cut()
        if cut:
            _LOG.warning("cut %d requests that were still under way; each is recorded", cut)
        until = loop.time() + self._rules.cut_seconds
        while (proxy.under_way or state.tasks) and loop.time() < until:
            await asyncio.sleep(_STEP)
        for connection in list(state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.close()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._recorder.switch.look()
            self._recorder.journal.look()
            self._prompts.look()
            self._rules.tokens.look()
            slept = loop.time()
            await asyncio.sleep(_LOOK_SECONDS)
            self.metrics.lagged(loop.time() - slept - _LOOK_SECONDS)

    async def _hurry_clients(self, server: uvicorn.Server) -> None:
        rules, refused = self._rules, self.metrics.refused
        limits = Limits(rules.head_seconds, rules.body_seconds, rules.stall_seconds)
        patience = Patience(limits, lambda what: refused.update((f"slow_{what}",)))
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_PATIENCE_SECONDS)
            patience.look(list(server.server_state.connections), loop.time())  # type: ignore[arg-type]

    @contextlib.contextmanager
    def _signals(self):  # type: ignore[no-untyped-def]
        loop = asyncio.get_running_loop()
        handled = {signal.SIGTERM: self.stop, signal.SIGINT: self.stop}
        handled[signal.SIGUSR1] = self._recorder.switch.throw
        try:
            for number, act in handled.items():
                loop.add_signal_handler(number, act)
        except (RuntimeError, ValueError):
            # Not in the main thread, as in tests: whoever runs us calls `stop`.
            yield
            return
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)


def listen(rules: GatewayRules) -> socket.socket:
    """A socket bound to host and port. Raises: SettingsError when that cannot be done."""
    family = socket.AF_INET6 if ":" in rules.host else socket.AF_INET
    # Named in full: only for such sockets does asyncio turn off the delay of small packets.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((rules.host.strip("[]"), rules.port))
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {rules.host} port {rules.port} ({error.strerror}); choose another with "
            "--host and --port"
        ) from error
    return listener


def _application(proxy: Proxy, api: Api):  # type: ignore[no-untyped-def]
    own = api.application()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1003})
            return
        path = scope["path"]
        if (
            path in _OWN_PATHS
            or path.startswith("/api/")
            or (path.startswith("/a/") and path.endswith(TRACES))
        ):
            await own(scope, receive, send)
        else:
            await proxy(scope, receive, send)

    return application


def _server(application) -> uvicorn.Server:  # type: ignore[no-untyped-def]
    config = uvicorn.Config(
        application,
        http=Connection,
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=False,
        ws="none",
        timeout_keep_alive=75,
        proxy_headers=False,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server
