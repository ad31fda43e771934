"""A run and its server, from the first request to the last."""

import shlex
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from ipaddress import ip_address, ip_network
from threading import Event as Flag
from typing import Protocol

from starlette.routing import BaseRoute

from streamgauge.cli.errors import describe_error
from streamgauge.cli.runs.monitor import ACCESS_FILE_NAME, CuratorLog, RunMonitor, handle_signals
from streamgauge.config.settings import PipelineFile
from streamgauge.runtime.options import Options
from streamgauge.runtime.pipeline import RunReport
from streamgauge.server.app import build_app
from streamgauge.server.http.connections import MAX_REQUEST_CONNECTIONS
from streamgauge.server.http.middleware import build_allowed_hosts
from streamgauge.server.http.serving import build_url, open_listener, serve_app
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.runner import Runner

CLEARTEXT_WARNING = "tokens and releases leave this machine unencrypted: put TLS in front"
PROXY_BYPASS_WARNING = "clients that reach this address directly bypass the proxy, unencrypted: allow the proxy only"


class ServerExtension(Protocol):
    """Additions of a demo to a server."""

    def routes(self, runner: Runner) -> Sequence[BaseRoute]: ...

    def activate(self, address: str, runner: Runner, tokens: Tokens, stop: Flag) -> AbstractContextManager[None]:
        """Run the additions while the server serves; `stop` ends it."""
        ...


def run_server(
    file: PipelineFile,
    options: Options,
    monitor: RunMonitor,
    listen_on: tuple[str, int],
    proxies: Sequence[str],
    *,
    extension: ServerExtension | None = None,
) -> None:
    """Run and serve until a signal; raise the failure of the run, if there is one."""
    stop = Flag()

    def log_failure(failure: Exception) -> None:
        monitor.log.write(f"a command failed: {describe_error(failure)[0]}")

    runner = Runner(file, options, on_progress=monitor.on_progress, on_failure=log_failure, demo=extension is not None)
    with open_listener(*listen_on) as listener, handle_signals(stop, monitor):
        runner.start()
        tokens = Tokens.from_pipeline(file)
        hosts = build_allowed_hosts(file.server, listener.getsockname()[0], proxied=bool(proxies))
        extra = extension.routes(runner) if extension else ()
        access = CuratorLog(file.folder, ACCESS_FILE_NAME).write
        app = build_app(
            runner, tokens, file.server, extra_routes=extra, hosts=hosts, log=monitor.log.write, access=access
        )
        danger, hints = find_danger(listener, proxies), find_token_hints(file, tokens)
        monitor.print_address(build_url(listener), danger=danger, hints=() if extension else hints)

        most = file.server.max_streams + MAX_REQUEST_CONNECTIONS
        check_failure = FailureMonitor(runner, monitor).check
        at_work = extension.activate(build_url(listener), runner, tokens, stop) if extension else nullcontext()
        try:
            with at_work:
                serve_app(
                    app,
                    listener,
                    stop,
                    on_stop=runner.disconnect_readers,
                    on_poll=check_failure,
                    log=monitor.log.write,
                    proxies=proxies,
                    max_connections=most,
                )
        finally:
            runner.stop()
            tokens.close()
    if runner.failure is not None:
        raise runner.failure
    monitor.print_end(RunReport(), stopped=True)


class FailureMonitor:
    """A message to the curator when the run fails."""

    def __init__(self, runner: Runner, monitor: RunMonitor) -> None:
        self.runner, self.monitor, self.has_reported = runner, monitor, False

    def check(self) -> None:
        failure = self.runner.failure
        if isinstance(failure, Exception) and not self.has_reported:
            self.has_reported = True
            self.monitor.print_failure(describe_error(failure)[0])


def find_token_hints(file: PipelineFile, tokens: Tokens) -> list[str]:
    """Return the commands that create the tokens needed to read or send."""
    roles, stream = {token.role for token in tokens.list_active()}, file.stream
    command = f"streamgauge token create {shlex.quote(file.path.name)}"
    hints = []
    if not file.server.anonymous and not roles - {"sender"}:
        hints.append(f"nobody can sign in yet: {command} NAME --role reader, or anonymous = true under [server]")
    needs_sender = stream.source_facts.needs_server and stream.allow_reports_from != "anyone"
    if needs_sender and not roles & {"sender", "curator"}:
        role = stream.allow_reports_from or "sender"
        hints.append(f"nobody can send yet: {command} NAME --role {role}")
    return hints


def find_danger(listener: socket.socket, proxies: Sequence[str]) -> str | None:
    """Return a warning if other machines reach the address. A trusted proxy does not keep them away."""
    if ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback:
        return None
    elsewhere = [each for each in proxies if not ip_network(each).is_loopback]
    return PROXY_BYPASS_WARNING if elsewhere else CLEARTEXT_WARNING
