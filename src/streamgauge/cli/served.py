"""A run and its server, from the first request to the last."""

import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from ipaddress import ip_address, ip_network
from threading import Event as Flag
from typing import Protocol

from starlette.routing import BaseRoute

from streamgauge.cli.curator_log import ACCESS, CuratorLog
from streamgauge.cli.failures import told
from streamgauge.cli.stopping import stopping
from streamgauge.cli.watching import Watching
from streamgauge.pipeline.options import Options
from streamgauge.pipeline.report import Report
from streamgauge.query.settings import PipelineFile
from streamgauge.server.app import app_of
from streamgauge.server.doors import BESIDES
from streamgauge.server.hosts import hosts_of
from streamgauge.server.runner import Runner
from streamgauge.server.serving import address_of, listening, serve
from streamgauge.server.tokens import Tokens

IN_THE_CLEAR = "tokens and releases travel in the clear beyond this machine: put TLS in front"
PASSED_BY = "whoever reaches this address passes the proxy by, in the clear: let the proxy alone reach it"


class Beside(Protocol):
    """What a demonstration adds to a server."""

    def routes(self, runner: Runner) -> Sequence[BaseRoute]: ...

    def at_work(
        self, address: str, runner: Runner, tokens: Tokens, stop: Flag
    ) -> AbstractContextManager[None]:
        """Around serving; may end it by `stop`."""
        ...


def served(
    file: PipelineFile,
    options: Options,
    watching: Watching,
    where: tuple[str, int],
    proxies: Sequence[str],
    *,
    beside: Beside | None = None,
) -> None:
    """Runs and serves until a signal comes; raises what ended the run, if anything did."""
    stop = Flag()

    def worry(failure: Exception) -> None:
        watching.log.line(f"what was asked for could not be taken in: {told(failure)[0]}")

    runner = Runner(file, options, seen=watching.seen, worry=worry, demo=beside is not None)
    with listening(*where) as listener, stopping(stop, watching):
        runner.start()
        tokens = Tokens.of(file)
        access = CuratorLog(file.folder, ACCESS)
        logs = {"log": watching.log.line, "access": access.line}
        hosts = hosts_of(file.server, listener.getsockname()[0], proxied=bool(proxies))
        extra = beside.routes(runner) if beside else ()
        app = app_of(runner, tokens, file.server, extra_routes=extra, hosts=hosts, **logs)
        watching.serving(address_of(listener), danger=danger_of(listener, proxies))

        most = file.server.max_live + BESIDES
        looks = {"ending": runner.let_go, "glance": Worry(runner, watching).glance}
        at_work = beside.at_work(address_of(listener), runner, tokens, stop) if beside else nullcontext()
        try:
            with at_work:
                serve(app, listener, stop, log=watching.log.line, proxies=proxies, most=most, **looks)
        finally:
            runner.stop()
            tokens.close()
    if runner.failure is not None:
        raise runner.failure
    watching.ended(Report(), stopped=True)


class Worry:
    """Tells the curator once when the run has failed."""

    def __init__(self, runner: Runner, watching: Watching) -> None:
        self.runner, self.watching, self.told = runner, watching, False

    def glance(self) -> None:
        failure = self.runner.failure
        if isinstance(failure, Exception) and not self.told:
            self.told = True
            self.watching.failed(told(failure)[0])


def danger_of(listener: socket.socket, proxies: Sequence[str]) -> str | None:
    """What other machines can do that reach it: a proxy that is believed keeps nobody from passing it by."""
    if ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback:
        return None
    elsewhere = [each for each in proxies if not ip_network(each).is_loopback]
    return PASSED_BY if elsewhere else IN_THE_CLEAR
