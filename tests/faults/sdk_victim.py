"""An app that records through `prx.open()` and says on stdout which calls it has had answered."""

import asyncio
import itertools
import os
import sys
import threading
from pathlib import Path
from typing import Any

import prx


def acknowledge(name: str) -> None:
    os.write(1, f"{name}\n".encode())


def one_call(evolution: Any, name: str) -> None:
    with evolution.session(user=name.split("-", 1)[0]) as session:
        text = session.prompt("support", default="Be kind to {who}.", who=name)
        with session.call(model="m", messages=text * (1 + hash(name) % 50), ref=name) as call:
            call.reply(text="hello", tokens={"input": 3, "output": 1})
    acknowledge(name)


def for_ever(home: Path, prefix: str) -> None:
    """Threads and tasks call side by side until somebody kills the process."""
    evolution = prx.open(home)
    numbers = itertools.count()

    def loop(kind: str) -> None:
        while True:
            one_call(evolution, f"{prefix}-{kind}-{next(numbers)}")

    async def task() -> None:
        while True:
            one_call(evolution, f"{prefix}-task-{next(numbers)}")
            await asyncio.sleep(0)

    async def tasks() -> None:
        await asyncio.gather(task(), task())

    for n in range(2):
        threading.Thread(target=loop, args=(f"t{n}",), daemon=True).start()
    asyncio.run(tasks())


def in_children(home: Path, children: int, each: int) -> None:
    """A server that preloads: the parent opens and records, its children go on with the same object."""
    evolution = prx.open(home)
    one_call(evolution, "before-0")
    kids = []
    for child in range(children):
        kid = os.fork()
        if kid == 0:
            threads = [
                threading.Thread(
                    target=lambda t=t, child=child: [
                        one_call(evolution, f"c{child}-{t}-{n}") for n in range(each)
                    ]
                )
                for t in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            flushed = evolution.flush(10)
            os._exit(0 if flushed and not evolution.faults else 1)
        kids.append(kid)
    for n in range(each):
        one_call(evolution, f"parent-{n}")
    failed = sum(os.waitpid(kid, 0)[1] != 0 for kid in kids)
    sys.exit(failed or len(evolution.faults))


if __name__ == "__main__":
    task_name, folder, *more = sys.argv[1:]
    if task_name == "forever":
        for_ever(Path(folder), more[0])
    else:
        in_children(Path(folder), children=3, each=20)
