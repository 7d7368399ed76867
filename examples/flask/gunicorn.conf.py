"""Four processes with a few threads each. Each process has its own connections, its own batches and its own breaker."""

import os
import shutil
import tempfile

bind = os.environ.get("BIND", "127.0.0.1:8000")
workers = int(os.environ.setdefault("WEB_CONCURRENCY", "4"))
worker_class = "gthread"
threads = 4
graceful_timeout = 5
control_socket_disable = True
# All processes count into one folder, so that any of them can tell the sums.
made = None
if "COUNTERS_FOLDER" not in os.environ:
    made = os.environ["COUNTERS_FOLDER"] = tempfile.mkdtemp(prefix="ratelimit-")


def worker_exit(server, worker):
    """The last request is answered: what this process holds and did not spend goes back."""
    from app import limits
    limits.batches.give_back()


def on_exit(server):
    if made:
        shutil.rmtree(made, ignore_errors=True)
