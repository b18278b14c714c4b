"""Runs the driver as a child: Ray ends its process, in ways that Python cannot catch, when its cluster goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from pagetoll.executor import driver
from pagetoll.executor.node import die_with_parent
from pagetoll.executor.protocol import ENVIRONMENT, USAGE, Results

_DRIVER = "--driver-writes-to"
_OWN_CODES = (0, USAGE, ENVIRONMENT, 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGPIPE)


def main() -> int:
    """The executor; the exit code."""
    if sys.argv[1:2] == [_DRIVER]:
        code = driver.main(sys.argv[3:], Results(int(sys.argv[2])))
        # Not by returning: Python would wait for the thread that reads stdin.
        os._exit(code)
    return _supervise(sys.argv[1:])


def _supervise(arguments: list[str]) -> int:
    """Starts the driver. Results have a descriptor of their own: what Ray prints goes to stderr."""
    results = os.dup(1)
    command = [sys.executable, "-m", "pagetoll.executor", _DRIVER, str(results), *arguments]
    # Ray looks for a cluster that does not answer for a minute by default, and so would whoever waits for results.
    environment = {"RAY_gcs_rpc_server_reconnect_timeout_s": "20", **os.environ}
    child = subprocess.Popen(command, stdout=2, pass_fds=[results], env=environment, preexec_fn=die_with_parent)
    os.close(results)
    passed_on: list[int] = []

    def pass_on(number: int, _: object) -> None:
        passed_on.append(number)
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    code = child.wait()
    if code in _OWN_CODES:
        return code
    if passed_on:
        return 128 + passed_on[0]
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    print(f"pagetoll executor: the cluster went away: Ray ended its process by {ended}", file=sys.stderr)
    return ENVIRONMENT
