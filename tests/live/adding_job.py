"""A job of `volvelle.client` for tests: adds up its batches; its ranks end each iteration together.

python adding_job.py BATCHES FOLDER
"""

import os
import sys
import time
from pathlib import Path

import volvelle.client as vc

batches, folder = int(sys.argv[1]), Path(sys.argv[2])
rank, nodes = int(os.environ["VOLVELLE_NODE_RANK"]), int(os.environ["VOLVELLE_NODES"])
barrier = os.open(folder / f"barrier-{os.environ['VOLVELLE_ATTEMPT']}", os.O_RDWR | os.O_CREAT)
state = vc.restore(default=vc.State(total=0))
for done, batch in enumerate(vc.iterate(range(batches), save=state.save), start=1):
    state.total += batch
    vc.report(total=state.total)
    time.sleep(0.002)
    os.pwrite(barrier, done.to_bytes(8), 8 * rank)
    while any(int.from_bytes(os.pread(barrier, 8, 8 * other)) < done for other in range(nodes)):
        time.sleep(0.0005)
with (folder / f"result-{rank}").open("a") as file:
    file.write(
        f"{'preempted' if vc.preempted() else 'finished'} {vc.progress().iterations} {state.total}\n"
    )
