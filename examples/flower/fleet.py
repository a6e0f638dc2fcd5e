"""A whole fleet on this machine: a SuperLink, SuperNodes, one run of the app beside this file.

    python examples/flower/fleet.py --nodes 8 --slow 15 --set steps=20

Everything listens on loopback, on free ports, and ends with this process.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = Path(sys.executable).parent  # of the environment that runs this


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="writer on the first of them")
    parser.add_argument("--slow", type=float, default=15, help="seconds that stragglers take more")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="sets")
    options = parser.parse_args()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = {
            **os.environ,
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        }

        def start(*command: str) -> None:
            log = stack.enter_context((home / f"{len(list(home.iterdir()))}.log").open("w"))
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(end, process)

        link = free_port()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{link}"\n'
            "insecure = true\n"
        )
        start(
            "flower-superlink",
            "--insecure",
            "--disable-runtime-dependency-installation",
            "--port",
            str(link),
        )
        wait_for(link)
        for writer in range(options.first, options.first + options.nodes):
            start(
                "flower-supernode",
                "--insecure",
                "--superlink",
                f"127.0.0.1:{link}",
                "--port",
                str(free_port()),
                "--node-config",
                f"writer={writer} slow={options.slow}",
            )
        sets = ["--run-config", " ".join(options.sets)] if options.sets else []
        run = ["flwr", "run", str(HERE), "here", "--stream", *sets]
        return subprocess.run(run, env=environment).returncode


def end(process: subprocess.Popen) -> None:
    """With all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port: int, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"no SuperLink on port {port} after {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
