"""A cluster of three masters and three replicas, a stream on it, and a master that is killed on the way.

python -m tests.redis.show
"""

import random
import tempfile
import threading
import time
from pathlib import Path

from tests.redis.failures import DATA, Checked, kill_one, streamed
from tests.redis.servers import Cluster


def main() -> int:
    print(f"in memory: `linear` on {DATA}", flush=True)
    wanted = streamed(None)
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        ports = ", ".join(str(server.port) for server in cluster.masters)
        print(f"cluster: masters on ports {ports}, a replica of each", flush=True)
        store = Checked(cluster.address("show", "timeout=1&patience=60"))

        def kill() -> None:
            time.sleep(1.5)
            before = store.arrived
            kill_one(random.Random())(cluster)
            dead = next(server.port for server in cluster.masters if server.process.poll() is not None)
            print(f"the master on port {dead} is killed after {before:,} nodes", flush=True)

        thread = threading.Thread(target=kill)
        thread.start()
        found = streamed(store)
        thread.join()
        traffic = store.servers.traffic
        print(f"the stream is over after {found.seconds:.1f} s: {store.arrived:,} nodes, {store.edges:,} edges")
        print(f"{traffic.trips:,} round trips, {traffic.retries} repeated, {traffic.redone} changes sent again")
        print(f"{found.compared:,} samples were compared with a store in memory: all equal")
        store.drop()
    equal = found.matrix == wanted.matrix and found.state == wanted.state
    print(f"scores and weights: {'equal to the bit' if equal else 'DIFFERENT'}")
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
